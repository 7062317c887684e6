//! Where an agent and its embedded runtime keep things, and where they can be found: all of it follows from one folder.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;

/// How often to look whether a folder is free.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// How long a command may take the folder.
const PATIENCE: Duration = Duration::from_secs(15);

/// The folder of an agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Where the agent and the embedded runtime keep their data, and where their sockets are
    #[arg(long, value_name = "DIR", env = "RUBELET_DATA_DIR", default_value = "/var/lib/rubelet")]
    data_dir: PathBuf,
}

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("cannot use {}: {source}; choose another folder with --data-dir", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("another agent runs with {}: end it, or choose another folder with --data-dir", path.display())]
    Taken { path: PathBuf },
}

impl Place {
    /// The folder itself, absolute.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        std::path::absolute(&self.data_dir)
    }

    /// The folder as it was given.
    pub(crate) fn given(&self) -> &Path {
        &self.data_dir
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
                None if Instant::now() < deadline && UnixStream::connect(&socket).await.is_err() => {
                    tokio::time::sleep(LOOK).await;
                }
                None => return Err(PlaceError::Taken { path: self.data_dir.clone() }),
            }
        }
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
            .open(path.join("agent.lock"))
            .map_err(unusable)?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(unusable(errno.into())),
        }
    }
}
