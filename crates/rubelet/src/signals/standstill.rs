//! Ctrl-Z: hang up, then stand still.
//!
//! A process that is stopped reads nothing, and a runtime may stand still with those who do not read its events. So the
//! wish to stop is caught, the connection is closed, and only then does the process stop.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use pleg::Pleg;
use pleg::cri::CriObserver;
use rubelet_cri::RuntimeClient;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

/// A process that stops itself has stopped by then.
const SOON_STOPPED: Duration = Duration::from_secs(1);

/// Stops the process whenever somebody asks for it at the terminal, with nothing open; when it is continued, tells for
/// how long it stood still, and has the PLEG go on.
pub(crate) async fn whenever_asked(
    pleg: &mut Pleg<CriObserver>,
    client: &RuntimeClient,
    stood_still: &watch::Sender<Option<Duration>>,
) -> Infallible {
    let Ok(mut asked) = at_the_terminal() else {
        // Without a handler the system stops the process by itself.
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

/// Ready when somebody asks at the terminal, and not before: for commands that rather end than stand still.
pub(crate) async fn asked_for() {
    match at_the_terminal() {
        Ok(mut asked) => {
            asked.recv().await;
        }
        // Without a handler the system stops the process by itself.
        Err(_) => std::future::pending().await,
    }
}

fn at_the_terminal() -> io::Result<Signal> {
    signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))
}

async fn until_continued() -> io::Result<()> {
    let mut continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
    // This thread may run for a moment longer, and must not connect again before the process has stopped. The first
    // process of a container does not stop for itself, and is not continued.
    let _ = tokio::time::timeout(SOON_STOPPED, continued.recv()).await;
    Ok(())
}
