//! The way to a runtime: one connection at a time, opened when it is needed and reopened when it has broken.
//!
//! For a while after a failed attempt to connect, calls fail at once with its error; after that, the next call tries
//! again. There is no limit to the attempts. Nothing runs in the background for this.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;
use crate::connection::{ConnectError, Connection};
use crate::{Endpoint, ErrorKind, Options};

/// The connection to a runtime, and the means to get another one.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    options: Options,
    /// Held while connecting. Other callers wait for the outcome instead of connecting as well.
    dialling: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Arc<Connection>>,
    backoff: Backoff,
    /// The last failure, and until when calls fail with it.
    failed: Option<(ConnectError, Instant)>,
}

impl Link {
    pub(crate) fn new(endpoint: Endpoint, options: Options) -> Self {
        Self {
            endpoint,
            options,
            dialling: tokio::sync::Mutex::default(),
            state: Mutex::default(),
            epoch: AtomicU64::new(0),
        }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The number of the latest connection; 0 before the first.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Closes the connection, if there is one.
    pub(crate) async fn hang_up(&self) {
        let current = self.state.lock().current.take();
        if let Some(connection) = current {
            connection.close().await;
        }
    }

    /// Returns a connection that was open a moment ago.
    ///
    /// Dropping the future while it connects gives up the attempt; the next caller in line then starts one of its own.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        if let Some(answer) = self.state.lock().answer() {
            return answer;
        }
        let _dialling = self.dialling.lock().await;
        if let Some(answer) = self.state.lock().answer() {
            return answer;
        }
        let limit = self.options.connect_timeout;
        let epoch = self.epoch() + 1;
        let result = match timeout(limit, Connection::open(&self.endpoint, epoch)).await {
            Ok(result) => result,
            Err(_) => Err(ConnectError::new(ErrorKind::Silent, format!("nothing was heard for {limit:?}"))),
        };
        let mut state = self.state.lock();
        match result {
            Ok(connection) => {
                self.epoch.store(epoch, Ordering::Release);
                let connection = Arc::new(connection);
                state.current = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                let wait = state.backoff.after_failure(fastrand::f64());
                state.failed = Some((error.clone(), Instant::now() + wait));
                Err(error)
            }
        }
    }
}

impl State {
    /// Returns what is known without connecting: the connection, or why there is none. `None` if it is time to connect.
    fn answer(&mut self) -> Option<Result<Arc<Connection>, ConnectError>> {
        if let Some(connection) = &self.current {
            if connection.is_open() {
                return Some(Ok(Arc::clone(connection)));
            }
            if connection.has_answered() {
                self.backoff.reset();
                self.failed = None;
            } else {
                // A peer that hangs up without ever answering is no better than one that cannot be reached.
                let wait = self.backoff.after_failure(fastrand::f64());
                let error =
                    ConnectError::new(ErrorKind::Unavailable, "the runtime hung up before its first answer");
                self.failed = Some((error, Instant::now() + wait));
            }
            self.current = None;
        }
        match &self.failed {
            Some((error, until)) if Instant::now() < *until => Some(Err(error.clone())),
            _ => None,
        }
    }
}
