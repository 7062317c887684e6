//! The embedded runtime, inside this process.

use std::path::PathBuf;
use std::time::Duration;

use rubelet_cri::{Endpoint, EndpointError};
use rubelet_runtime::embedded::{Error, Options, serve};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::crew::last_words;
use crate::place::Place;

/// How often to look whether the runtime listens.
const LOOK: Duration = Duration::from_millis(5);

/// The embedded runtime, as long as this lives. Containers go on without it.
#[derive(Debug)]
pub(crate) struct Embedded {
    pub(crate) endpoint: Endpoint,
    task: JoinHandle<Result<(), Error>>,
}

/// The embedded runtime does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EmbeddedError {
    #[error("the embedded runtime does not start: {0}")]
    Failed(Error),
    #[error("the embedded runtime ended by itself")]
    Ended,
    #[error("{0}; choose a shorter --data-dir")]
    Socket(#[from] EndpointError),
    #[error("cannot find the data folder: {0}")]
    Folder(#[from] std::io::Error),
}

impl Embedded {
    /// Starts it, and waits until it listens.
    pub(crate) async fn start(place: &Place, cni_conf_dir: Option<PathBuf>) -> Result<Self, EmbeddedError> {
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

    /// Waits for it to end, which it should not; gives what it says about it.
    pub(super) async fn ended(&mut self) -> Option<String> {
        match (&mut self.task).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => last_words(error),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.task.abort();
    }
}
