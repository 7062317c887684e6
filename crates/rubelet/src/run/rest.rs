//! Gives memory back while the agent is idle.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// After this long without a change of any pod, there will probably be none for a while.
const QUIET: Duration = Duration::from_secs(5);

/// Calls `rest` whenever changes have arrived and then ceased.
pub(super) async fn whenever_quiet(
    mut changes: watch::Receiver<u64>,
    rest: impl Fn() + Clone + Send + 'static,
) -> Infallible {
    loop {
        while let Ok(Ok(())) = timeout(QUIET, changes.changed()).await {}
        // Giving memory back is optional, so a failure is ignored.
        let _ = tokio::task::spawn_blocking(rest.clone()).await;
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rests_once_after_each_time_of_change() {
        let (change, changes) = watch::channel(0);
        let rests = Arc::new(AtomicUsize::new(0));
        let counted = rests.clone();
        let resting = tokio::spawn(whenever_quiet(changes, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        for round in 1..=3 {
            for _ in 0..10 {
                change.send_modify(|version| *version += 1);
                sleep(QUIET / 2).await;
                assert_eq!(rests.load(Ordering::SeqCst), round - 1, "not while pods change");
            }
            sleep(QUIET * 10).await;
            assert_eq!(rests.load(Ordering::SeqCst), round, "once");
        }
        resting.abort();
    }
}
