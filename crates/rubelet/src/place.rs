//! Where an agent and its embedded runtime keep things, and where they can be found: all of it follows from one folder.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

/// How often to look whether a folder is free.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// How long a command may have the folder before others say so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The folder of an agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Where the agent and the embedded runtime keep their data, and where their sockets are; also `$RUBELET_DATA_DIR`
    #[arg(long, value_name = "DIR", default_value_os_t = usual_folder())]
    data_dir: PathBuf,
}

/// Where everything is if nobody says otherwise.
pub(crate) const USUAL_FOLDER: &str = "/var/lib/rubelet";

fn usual_folder() -> PathBuf {
    folder_of_environment().unwrap_or_else(|| USUAL_FOLDER.into())
}

/// The folder that the environment names. Empty is the same as not there.
pub(crate) fn folder_of_environment() -> Option<PathBuf> {
    std::env::var_os("RUBELET_DATA_DIR").filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("cannot use {}: {source}; {}choose another folder with --data-dir", path.display(), help(source))]
    Unusable { path: PathBuf, source: io::Error },
    #[error("another agent runs with {}: end it, or choose another folder with --data-dir", path.display())]
    Taken { path: PathBuf },
    #[error(
        "{} is in use by another command, or by an agent that does not answer yet: try again later; `fuser -v {}` tells who it is",
        path.display(),
        path.join(LOCK).display()
    )]
    Busy { path: PathBuf },
}

/// What else may help than another folder.
fn help(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { "run as root, or " } else { "" }
}

/// Whoever has locked this file has the folder.
const LOCK: &str = "agent.lock";

impl Place {
    /// The folder itself, absolute.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::path::absolute(&self.data_dir)
    }

    /// The folder as it was given.
    pub(crate) fn given(&self) -> &Path {
        &self.data_dir
    }

    /// Whether it is the one that commands use that are not told another.
    pub(crate) fn is_usual(&self) -> bool {
        self.data_dir == usual_folder()
    }

    /// Where the embedded runtime listens.
    pub(crate) fn runtime_socket(&self) -> io::Result<PathBuf> {
        Ok(self.path()?.join("runtime.sock"))
    }

    /// Where the agent listens for commands.
    pub(crate) fn agent_socket(&self) -> io::Result<PathBuf> {
        Ok(self.path()?.join("agent.sock"))
    }

    /// Makes the folder and takes it, for as long as the file lives: for an agent, or for a command that does without one.
    /// A command is soon done, so an agent that finds the folder taken waits a little.
    pub(crate) async fn take(&self) -> Result<File, PlaceError> {
        let unusable = |source| PlaceError::Unusable { path: self.data_dir.clone(), source };
        let socket = self.agent_socket().map_err(unusable)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.try_take()? {
                Some(lock) => return Ok(lock),
                None if UnixStream::connect(&socket).await.is_ok() => {
                    return Err(PlaceError::Taken { path: self.data_dir.clone() });
                }
                None if Instant::now() >= deadline => return Err(self.busy()),
                None => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// That somebody has had the folder for too long.
    pub(crate) fn busy(&self) -> PlaceError {
        PlaceError::Busy { path: self.data_dir.clone() }
    }

    /// Takes the folder if nobody has.
    pub(crate) fn try_take(&self) -> Result<Option<File>, PlaceError> {
        let unusable = |source| PlaceError::Unusable { path: self.data_dir.clone(), source };
        let path = self.path().map_err(unusable)?;
        std::fs::create_dir_all(&path).map_err(unusable)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .map_err(unusable)?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(unusable(errno.into())),
        }
    }

    /// Whether somebody has the folder. Only looks: nothing is made, and the folder is not kept from anybody for longer.
    pub(crate) fn is_taken(&self) -> bool {
        let Some(lock) = self.path().ok().and_then(|path| File::open(path.join(LOCK)).ok()) else {
            return false;
        };
        // Shared, so that two who look do not take each other for an agent.
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared)
            == Err(rustix::io::Errno::WOULDBLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_folder_that_somebody_has_is_waited_for_but_not_for_ever() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place { data_dir: folder.path().to_owned() };
        let lock = place.try_take().expect("usable").expect("nobody has it");
        let begun = Instant::now();
        let waited = place.take().await.expect_err("somebody has it");
        assert!(matches!(waited, PlaceError::Busy { .. }), "{waited}");
        assert!(begun.elapsed() >= PATIENCE);

        let begun = Instant::now();
        let soon_done = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(lock);
        };
        let (taken, ()) = tokio::join!(place.take(), soon_done);
        assert!(taken.is_ok() && begun.elapsed() < PATIENCE);

        let _agent = std::os::unix::net::UnixListener::bind(folder.path().join("agent.sock")).expect("bound");
        let refused = place.take().await.expect_err("an agent has it");
        assert!(matches!(refused, PlaceError::Taken { .. }), "{refused}");
    }

    #[test]
    fn who_may_not_use_the_folder_is_told_who_may() {
        for (kind, wanted) in [
            (
                io::ErrorKind::PermissionDenied,
                "permission denied; run as root, or choose another folder with --data-dir",
            ),
            (io::ErrorKind::StorageFull, "no storage space; choose another folder with --data-dir"),
        ] {
            let error = PlaceError::Unusable { path: "/x".into(), source: kind.into() };
            assert_eq!(error.to_string(), format!("cannot use /x: {wanted}"));
        }
    }

    #[test]
    fn to_look_whether_somebody_has_a_folder_leaves_it_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place { data_dir: folder.path().join("data") };
        assert!(!place.is_taken() && !place.given().exists());
        let lock = place.try_take().expect("usable").expect("nobody has it");
        assert!(place.is_taken());
        drop(lock);
        assert!(!place.is_taken());
        assert!(place.try_take().expect("usable").is_some(), "who looked has not kept it");
    }
}
