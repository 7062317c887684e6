//! Ctrl-Z: close the connection, then stop.
//!
//! A stopped process reads nothing, and a runtime may block on a client that does not read its events. So the request
//! to stop is caught, the connection is closed, and only then does the process stop.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use pleg::Pleg;
use pleg::cri::CriObserver;
use rubelet_cri::RuntimeClient;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

/// By this time, a process that stops itself has stopped.
const SOON_STOPPED: Duration = Duration::from_secs(1);

/// Stops the process, with no connection open, whenever that is requested at the terminal. When the process is
/// continued, it publishes how long the stop has lasted, and restarts the PLEG.
pub(crate) async fn whenever_asked(
    pleg: &mut Pleg<CriObserver>,
    client: &RuntimeClient,
    stood_still: &watch::Sender<Option<Duration>>,
) -> Infallible {
    let Ok(mut asked) = at_the_terminal() else {
        // Without a handler, the system stops the process anyway.
        return std::future::pending().await;
    };
    loop {
        asked.recv().await;
        pleg.stop().await;
        client.hang_up().await;
        let since = Instant::now();
        let stopped = until_continued().await;
        if stopped.is_ok() {
            stood_still.send_replace(Some(since.elapsed()));
        }
        pleg.start();
    }
}

/// Waits until a stop is requested at the terminal, for commands that end instead of stopping.
pub(crate) async fn asked_for() {
    match at_the_terminal() {
        Ok(mut asked) => {
            asked.recv().await;
        }
        // Without a handler, the system stops the process anyway.
        Err(_) => std::future::pending().await,
    }
}

fn at_the_terminal() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))
}

async fn until_continued() -> io::Result<()> {
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
    // This thread may run for a moment longer, and must not reconnect before the process has stopped. The first process
    // of a container cannot stop itself, and so is never continued.
    let _ = tokio::time::timeout(SOON_STOPPED, continued.recv()).await;
    Ok(())
}
