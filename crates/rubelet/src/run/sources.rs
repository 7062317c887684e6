//! The pod sources of a run.

use std::path::{Path, PathBuf};

use rubelet_agent::source::{
    FileSource, HttpSource, HttpSourceError, Inbox, Source, SourceId, forget_kept_of_others,
};
use rubelet_agent::sync_loop::Readiness;
use rubelet_runtime::writers::is_open_for_writing;
use tokio::sync::watch;

use super::Plan;
use super::crew::Crew;

/// Why the sources cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourcesError {
    #[error(
        "nothing to run: give the path of a manifest or of a folder with manifests, or a URL with --manifest-url"
    )]
    Nothing,
    #[error("{}: {source}; give the path of a manifest or of a folder with manifests", path.display())]
    NoManifest { path: PathBuf, source: std::io::Error },
    #[error(
        "{} is neither a regular file nor a folder: manifests are read repeatedly, which a pipe, socket or device \
         does not allow; write them to a file",
        .0.display()
    )]
    NotAFile(PathBuf),
    #[error(transparent)]
    BadUrl(#[from] HttpSourceError),
    #[error("--manifest-url-header-file needs --manifest-url")]
    HeadersForNobody,
    #[error(
        "--manifest-url-header-file needs a single URL, but there are {0}: headers may be credentials, which no \
         other server should see. Run one agent per URL, each with its own --data-dir"
    )]
    HeadersForMany(usize),
}

/// A source of pods.
pub(super) enum AnySource {
    File(FileSource),
    Http(HttpSource),
}

impl AnySource {
    pub(super) fn id(&self) -> SourceId {
        match self {
            Self::File(source) => source.id(),
            Self::Http(source) => source.id(),
        }
    }

    /// Returns its URL without credentials, if it has one.
    pub(super) fn url(&self) -> Option<String> {
        match self {
            Self::File(_) => None,
            Self::Http(source) => Some(source.id().place.to_string()),
        }
    }

    pub(super) fn spawn(self, crew: &mut Crew, inbox: &Inbox) {
        let id = self.id();
        let sets = inbox.sender(id.clone());
        let name = format!("the pod source {id}");
        match self {
            Self::File(source) => crew.spawn(name, source.run(sets)),
            Self::Http(source) => crew.spawn(name, source.run(sets)),
        }
    }
}

/// The last good versions of manifests, kept for the next agent. Runs with `--once` keep none: their pods must run as
/// their manifests are now, or not at all.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    /// The sources whose manifests are kept.
    of: Vec<SourceId>,
}

impl Kept {
    pub(super) fn new(plan: &Plan, data: &Path, sources: &[AnySource]) -> Self {
        let sources = sources.iter().filter(|_| !plan.once);
        Self { folder: folder_of_kept(data), of: sources.map(AnySource::id).collect() }
    }

    /// Removes the manifests of sources that are no longer used, once every source has been read: until then, one of
    /// their pods may be running.
    pub(super) async fn forget_others(&self, mut ready: watch::Receiver<Readiness>) {
        if ready.wait_for(Readiness::is_ready).await.is_ok() {
            forget_kept_of_others(self.folder.clone(), &self.of).await;
        }
    }
}

fn folder_of_kept(data: &Path) -> PathBuf {
    data.join("manifests")
}

/// Creates the sources of a run, which keep the manifests that they read last below `data`.
pub(super) fn sources(plan: &Plan, node_name: &str, data: &Path) -> Result<Vec<AnySource>, SourcesError> {
    if plan.paths.is_empty() && plan.urls.is_empty() && plan.configured_url.is_none() {
        return Err(SourcesError::Nothing);
    }
    if plan.url_header_file.is_some() {
        match plan.urls.len() + usize::from(plan.configured_url.is_some()) {
            0 => return Err(SourcesError::HeadersForNobody),
            1 => {}
            many => return Err(SourcesError::HeadersForMany(many)),
        }
    }
    let kept = folder_of_kept(data);
    let file = |path: &PathBuf| {
        let mut source =
            FileSource::new(manifest_path(path)?, node_name).ask_for_writers(is_open_for_writing);
        if let Some(poll) = plan.file_poll {
            source = source.poll_period(poll);
        }
        Ok(AnySource::File(if plan.once { source } else { source.keep_last_good(&kept) }))
    };
    let url = |url: &String, headers: &[(String, String)]| {
        let mut source = HttpSource::new(url, node_name)?;
        for (name, value) in headers {
            source = source.header(name, value)?;
        }
        if let Some(header_file) = &plan.url_header_file {
            source = source.header_file(header_file);
        }
        if let Some(poll) = plan.url_poll {
            source = source.poll_period(poll);
        }
        Ok(AnySource::Http(if plan.once { source } else { source.keep_last_good(&kept) }))
    };
    let urls = plan.urls.iter().map(|given| url(given, &[]));
    let configured = plan.configured_url.iter().map(|given| url(&given.url, &given.headers));
    plan.paths.iter().map(file).chain(urls).chain(configured).collect()
}

/// Returns the absolute path of manifests that exist now. Symbolic links in it are kept: changing them changes what is
/// read.
fn manifest_path(given: &Path) -> Result<PathBuf, SourcesError> {
    let found = given.metadata().and_then(|what| Ok((what, std::path::absolute(given)?)));
    match found {
        Ok((what, path)) if what.is_file() || what.is_dir() => Ok(path),
        Ok(_) => Err(SourcesError::NotAFile(given.to_owned())),
        Err(source) => Err(SourcesError::NoManifest { path: given.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_and_what_is_not_there_or_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (release, current) = (folder.path().join("41"), folder.path().join("current"));
        std::fs::create_dir(&release).unwrap();
        symlink("41", &current).unwrap();
        assert_eq!(manifest_path(&current).unwrap(), current);
        std::fs::remove_dir(&release).unwrap();
        for path in [current, release] {
            let error = manifest_path(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: No such file", path.display())), "{error}");
        }
        let socket = folder.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [socket, PathBuf::from("/dev/null")] {
            assert!(matches!(manifest_path(&path), Err(SourcesError::NotAFile(_))), "{path:?}");
        }
    }
}
