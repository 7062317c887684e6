//! What is in the files of a folder, or in one file: read again only when it changed, and good as long as its last good
//! version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::hints::Due;
use super::last_good::LastGood;
use super::{SourceKind, SourceSet};
use crate::manifest::{Issue, LARGEST_MANIFEST, Manifest, Objects, Origin, Problem, load};

/// The state of a file source. Its methods block on the disk.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    node_name: String,
    kept: Option<LastGood>,
    files: BTreeMap<PathBuf, KnownFile>,
}

/// Why the files cannot be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CannotList(pub(super) Issue);

#[derive(Debug, Default)]
struct KnownFile {
    version: Option<Version>,
    /// Whether that version was read twice. Before, the file may have been written again in the tick in which it was read.
    is_settled: bool,
    /// What it said when it could last be used.
    good: Option<Manifest>,
    /// What is wrong with it now; the remarks of the good version if that is what it is.
    problems: Vec<Problem>,
}

/// Tells one version of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What came of looking at a file.
enum Look {
    Unchanged,
    Gone,
    Read(Version, Result<Vec<u8>, Issue>),
    /// It changed while it was read.
    InMotion,
}

impl Files {
    pub(super) fn new(root: PathBuf, node_name: String, kept: Option<LastGood>) -> Self {
        Self { root, node_name, kept, files: BTreeMap::new() }
    }

    /// Looks at all files, except at those that somebody is writing: of these the last look stays.
    pub(super) fn scan(&mut self, due: &Due) -> Result<Scanned, CannotList> {
        let listed = self.list()?;
        let is_first = self.files.is_empty();
        let known = self.files.len();
        self.files.retain(|path, _| listed.contains(path));
        if is_first || self.files.len() < known {
            let places: Vec<String> = listed.iter().map(|path| place(path)).collect();
            self.kept.iter().for_each(|kept| kept.forget_all_but(places.iter().map(String::as_str)));
        }
        let mut scanned = Scanned::Settled;
        for path in listed {
            if due.writing.contains(&path) {
                continue;
            }
            let known = self.files.entry(path.clone()).or_default();
            let trusted = known.version.filter(|_| known.is_settled && !due.touched.contains(&path));
            match look(&path, trusted) {
                Look::Unchanged => {}
                Look::Gone => {
                    self.files.remove(&path);
                }
                Look::InMotion => scanned = Scanned::InMotion,
                Look::Read(version, text) => {
                    known.is_settled = known.version == Some(version);
                    known.version = Some(version);
                    known.take(text, &self.node_name, &path, self.kept.as_ref());
                }
            }
        }
        Ok(scanned)
    }

    /// All that is known, and all that is wrong.
    pub(super) fn set(&self) -> SourceSet {
        let mut set = SourceSet { problems: self.problems(), ..SourceSet::default() };
        let mut objects = Objects::default();
        for manifest in self.files.values().filter_map(|file| file.good.as_ref()) {
            set.pods.extend(manifest.pods.iter().cloned());
            // Of two objects of one name the first file's is used, as with pods.
            for (key, map) in &manifest.objects.config_maps {
                objects.config_maps.entry(key.clone()).or_insert_with(|| Arc::clone(map));
            }
            for (key, secret) in &manifest.objects.secrets {
                objects.secrets.entry(key.clone()).or_insert_with(|| Arc::clone(secret));
            }
        }
        set.objects = Arc::new(objects);
        set
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        self.files
            .values()
            .flat_map(|file| file.problems.iter().cloned())
            .chain(self.double_objects())
            .collect()
    }

    fn double_objects(&self) -> impl Iterator<Item = Problem> {
        let mut seen = BTreeSet::new();
        let mut problems = Vec::new();
        for (path, file) in &self.files {
            let Some(manifest) = &file.good else { continue };
            let maps = manifest.objects.config_maps.keys().map(|key| ("ConfigMap", key));
            let secrets = manifest.objects.secrets.keys().map(|key| ("Secret", key));
            for (kind, key) in maps.chain(secrets) {
                if !seen.insert((kind, key)) {
                    problems
                        .push(Problem::error(place(path), Issue::Duplicate).about(format!("{kind} {key}")));
                }
            }
        }
        problems.into_iter()
    }

    fn list(&self) -> Result<BTreeSet<PathBuf>, CannotList> {
        let unreadable = |error: io::Error| CannotList(Issue::Unreadable(error.to_string()));
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_file() => Ok(BTreeSet::from([self.root.clone()])),
            Ok(metadata) if metadata.is_dir() => {
                let mut files = BTreeSet::new();
                for entry in fs::read_dir(&self.root).map_err(unreadable)? {
                    let entry = entry.map_err(unreadable)?;
                    if !entry.file_name().to_string_lossy().starts_with('.') && !entry.path().is_dir() {
                        files.insert(entry.path());
                    }
                }
                Ok(files)
            }
            Ok(_) => Err(CannotList(Issue::NotAFile)),
            // What is not there has no pods.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(unreadable(error)),
        }
    }
}

/// Whether it is worth looking again soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    Settled,
    InMotion,
}

impl KnownFile {
    fn take(&mut self, text: Result<Vec<u8>, Issue>, node_name: &str, path: &Path, kept: Option<&LastGood>) {
        let place = place(path);
        let origin =
            Origin { source: SourceKind::File, place: place.clone(), node_name: node_name.to_owned() };
        let text = text.map_err(|issue| vec![Problem::error(place.as_str(), issue)]);
        match text.and_then(|text| load(&text, &origin).map(|manifest| (manifest, text))) {
            Ok((mut manifest, text)) => {
                self.problems = std::mem::take(&mut manifest.warnings);
                self.good = Some(manifest);
                kept.iter().for_each(|kept| kept.keep(&place, &text));
            }
            Err(problems) => {
                self.problems = problems;
                // Not good since the agent was started; perhaps it was before.
                let recall = || load(&kept?.recall(&place)?, &origin).ok();
                self.good = self.good.take().or_else(recall);
            }
        }
    }
}

fn place(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn look(path: &Path, known: Option<Version>) -> Look {
    // A file that cannot be opened has no version: it is looked at again each time.
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Look::Gone,
        _ => Look::Read(NO_VERSION, Err(Issue::Unreadable(error.to_string()))),
    };
    match fs::metadata(path) {
        Ok(metadata) if known == Some(Version::of(&metadata)) => return Look::Unchanged,
        // Opening a pipe would wait for its writer.
        Ok(metadata) if !metadata.is_file() => {
            return Look::Read(Version::of(&metadata), Err(Issue::NotAFile));
        }
        Ok(_) => {}
        Err(error) => return unreadable(error),
    }
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(nonblocking).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return unreadable(error),
    };
    match read(&mut file) {
        Ok(look) => look,
        Err(error) => unreadable(error),
    }
}

const NO_VERSION: Version = Version { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0) };

fn read(file: &mut File) -> io::Result<Look> {
    let before = file.metadata()?;
    if !before.is_file() {
        return Ok(Look::Read(Version::of(&before), Err(Issue::NotAFile)));
    }
    let mut text = Vec::new();
    let limit = LARGEST_MANIFEST as u64;
    file.take(limit + 1).read_to_end(&mut text)?;
    let after = Version::of(&file.metadata()?);
    if after != Version::of(&before) {
        return Ok(Look::InMotion);
    }
    let text = if text.len() > LARGEST_MANIFEST {
        Err(Issue::TooLarge { limit: LARGEST_MANIFEST })
    } else {
        Ok(text)
    };
    Ok(Look::Read(after, text))
}

#[cfg(test)]
mod tests;
