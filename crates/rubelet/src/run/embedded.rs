//! The embedded runtime, inside this process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_cri::{Endpoint, EndpointError};
use rubelet_runtime::embedded::{Error, Options, serve};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::crew::last_words;
use crate::place::Place;

/// How often to check whether the runtime listens.
const LOOK: Duration = Duration::from_millis(5);

/// The file that a runtime keeps locked while it runs.
const LOCK: &str = "lock";
/// How long to wait for the lock. An agent or a command that is ending releases it within a moment; if anything else
/// holds it, starting the runtime reports that.
const ENDING: Duration = Duration::from_secs(2);

/// The embedded runtime, which runs as long as this value lives. Containers keep running without it.
#[derive(Debug)]
pub(crate) struct Embedded {
    pub(crate) endpoint: Endpoint,
    task: JoinHandle<Result<(), Error>>,
}

/// Why the embedded runtime does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[error("the embedded runtime failed to start: {0}")]
    Failed(Error),
    #[error("the embedded runtime ended unexpectedly")]
    Ended,
    #[error("{0}; choose a shorter --data-dir")]
    Socket(#[from] EndpointError),
    #[error("cannot find the data folder: {0}")]
    Folder(#[from] std::io::Error),
}

impl Embedded {
    /// Starts the runtime, and waits until it listens.
    pub(crate) async fn start(place: &Place, cni_conf_dir: Option<PathBuf>) -> Result<Self, EmbeddedError> {
        until_free(&place.path()?.join(LOCK)).await;
        let socket = place.runtime_socket()?;
        let endpoint = Endpoint::from_path(&socket)?;
        let options =
            Options { socket: socket.clone(), data_dir: place.path()?, cni_conf_dir, ..Options::default() };
        let mut task = tokio::spawn(serve(options, std::future::pending()));
        let listens = async {
            while UnixStream::connect(&socket).await.is_err() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            ended = &mut task => Err(match ended {
                Ok(Err(error)) => EmbeddedError::Failed(error),
                Ok(Ok(())) | Err(_) => EmbeddedError::Ended,
            }),
            () = listens => Ok(Self { endpoint, task }),
        }
    }

    /// Waits until the runtime ends, which it should not, and returns the reason if there is one.
    pub(super) async fn ended(&mut self) -> Option<String> {
        match (&mut self.task).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => last_words(error),
        }
    }
}

/// Waits for the previous runtime of this folder to release its lock, but not for long.
async fn until_free(lock: &Path) {
    let deadline = Instant::now() + ENDING;
    // `is_locked` closes the file before the runtime starts, so the runtime does not find it locked by this check.
    while is_locked(lock) && Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
}

fn is_locked(lock: &Path) -> bool {
    let shared = |file: File| flock(&file, FlockOperation::NonBlockingLockShared);
    File::open(lock).is_ok_and(|file| shared(file) == Err(Errno::WOULDBLOCK))
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_just_ends_is_waited_for_but_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(LOCK);
        until_free(&path).await;
        let held = File::create(&path).expect("made");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("free");
        let begun = Instant::now();
        until_free(&path).await;
        assert!(begun.elapsed() >= ENDING && is_locked(&path));
        let begun = Instant::now();
        let soon_gone = async {
            tokio::time::sleep(ENDING / 4).await;
            drop(held);
        };
        tokio::join!(until_free(&path), soon_gone);
        assert!(begun.elapsed() < ENDING / 2);
    }
}
