//! An agent at rest holds no more memory than resting takes.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// After so long without a change of any pod, there will probably be none for a while.
const QUIET: Duration = Duration::from_secs(5);

/// What wakes now and then takes a little back each time.
const AGAIN: Duration = Duration::from_secs(30);

/// Does something whenever changes have come and then stopped coming, and now and then as long as none comes.
pub(super) async fn whenever_quiet(
    mut changes: watch::Receiver<u64>,
    rest: impl Fn() + Clone + Send + 'static,
) -> Infallible {
    loop {
        while let Ok(Ok(())) = timeout(QUIET, changes.changed()).await {}
        // Who cannot rest goes on without.
        let _ = tokio::task::spawn_blocking(rest.clone()).await;
        if let Ok(Err(_)) = timeout(AGAIN, changes.changed()).await {
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
    async fn rests_after_each_time_of_change_and_now_and_then_without_one() {
        let (change, changes) = watch::channel(0);
        let rests = Arc::new(AtomicUsize::new(0));
        let counted = rests.clone();
        let resting = tokio::spawn(whenever_quiet(changes, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        let rests = || rests.load(Ordering::SeqCst);
        for _ in 0..3 {
            let before = rests();
            for _ in 0..20 {
                change.send_modify(|version| *version += 1);
                sleep(QUIET / 2).await;
                assert_eq!(rests(), before, "not while pods change");
            }
            sleep(QUIET).await;
            assert_eq!(rests(), before + 1, "once");
            sleep(AGAIN / 2).await;
            assert_eq!(rests(), before + 1, "not all the time");
            sleep(AGAIN).await;
            assert_eq!(rests(), before + 2, "but again");
        }
        resting.abort();
    }
}
