//! The last good text of each manifest, kept on disk, so that a broken manifest or an unavailable server does no harm
//! to a pod even if the agent has been restarted in the meantime.
//!
//! This is best effort: a text that cannot be kept is logged and done without.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::SourceId;
use crate::fnv::Fnv128;
use crate::off_thread::off_thread;

/// The folder of kept texts of one source.
#[derive(Clone, Debug)]
pub(super) struct LastGood {
    folder: PathBuf,
}

impl LastGood {
    /// Creates a store for the texts of the source at `source`, in its own folder below `folder`.
    pub(super) fn new(folder: &Path, source: &str) -> Self {
        Self { folder: folder.join(name(source)) }
    }

    /// Keeps the text of the manifest at `place`.
    pub(super) fn keep(&self, place: &str, text: &[u8]) {
        let path = self.path(place);
        if fs::read(&path).is_ok_and(|kept| kept == text) {
            return;
        }
        if let Err(error) = self.write(&path, text) {
            tracing::warn!(manifest = place, path = %path.display(), %error, "cannot save the last good version of a \
                                                                              manifest");
        }
    }

    /// Returns the kept text of the manifest at `place`.
    pub(super) fn recall(&self, place: &str) -> Option<Vec<u8>> {
        fs::read(self.path(place)).ok()
    }

    /// Forgets the texts of all manifests except these.
    pub(super) fn forget_all_but<'a>(&self, places: impl Iterator<Item = &'a str>) {
        let names: BTreeSet<String> = places.map(name).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !names.contains(&*entry.file_name().to_string_lossy())
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "cannot remove an old version of a manifest");
            }
        }
    }

    fn path(&self, place: &str) -> PathBuf {
        self.folder.join(name(place))
    }

    /// Writes a text atomically, readable only by the owner because it may contain secrets.
    fn write(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let next = path.with_extension("next");
        match fs::remove_file(&next) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text)?;
        file.sync_data()?;
        fs::rename(next, path)
    }
}

/// Forgets what is kept below `folder` for all sources except these. To be called once all of these have been read:
/// then no pod of any other source is running, and its texts may contain secrets.
pub async fn forget_kept_of_others(folder: PathBuf, sources: &[SourceId]) {
    let stay: BTreeSet<String> = sources.iter().map(|source| name(&source.place)).collect();
    off_thread(move || forget_folders_but(&folder, &stay)).await;
}

fn forget_folders_but(folder: &Path, stay: &BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder
            && !stay.contains(&*entry.file_name().to_string_lossy())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove old versions of manifests");
        }
    }
}

/// Returns the name of a source's folder, or of a manifest's file in it.
fn name(place: &str) -> String {
    Fnv128::of(place.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::source::SourceKind;

    #[test]
    fn texts_are_kept_privately_recalled_and_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = LastGood::new(&folder.path().join("kept"), "/manifests");
        assert_eq!(kept.recall("a"), None);
        kept.forget_all_but([].into_iter());
        kept.keep("a", b"1");
        kept.keep("a", b"2");
        kept.keep("b", b"3");
        assert_eq!((kept.recall("a"), kept.recall("b")), (Some(b"2".to_vec()), Some(b"3".to_vec())));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&kept.folder), mode(&kept.path("a"))), (0o700, 0o600));

        let other = LastGood::new(&folder.path().join("kept"), "/others");
        assert_eq!(other.recall("a"), None, "sources do not share");
        kept.forget_all_but(["b"].into_iter());
        assert_eq!((kept.recall("a"), kept.recall("b")), (None, Some(b"3".to_vec())));
    }

    #[tokio::test]
    async fn what_is_kept_of_sources_that_are_no_more_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = ["/one", "/two"].map(|place| LastGood::new(folder.path(), place));
        kept.iter().for_each(|kept| kept.keep("a", b"1"));
        let one = SourceId::new(SourceKind::File, "/one");
        let left = || kept.each_ref().map(|kept| kept.folder.exists());
        forget_kept_of_others(folder.path().to_owned(), &[one]).await;
        assert_eq!((left(), kept[0].recall("a")), ([true, false], Some(b"1".to_vec())));
        forget_kept_of_others(folder.path().to_owned(), &[]).await;
        assert_eq!(left(), [false, false]);
        forget_kept_of_others(folder.path().join("none"), &[]).await;
    }
}
