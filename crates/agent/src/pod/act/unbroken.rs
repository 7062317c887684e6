//! Calls that make something are heard to their end, also if their pod is to end meanwhile.
//!
//! A call that is given up may still do its work, after everybody has looked and found nothing: a sandbox that nobody
//! knows, a container that starts when its pod is long forgotten.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Mutex;

/// The calls of one pod: one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unbroken(Arc<Mutex<()>>);

impl Unbroken {
    /// Makes a call in a task of its own. Whoever waits for it may stop waiting; the call goes on. Its panic is the
    /// caller's.
    pub(super) async fn call<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let under_way = self.0.clone().lock_owned().await;
        let task = tokio::spawn(async move {
            let answer = call.await;
            drop(under_way);
            answer
        });
        match task.await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Everything is shutting down, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Ready when no call is under way.
    pub(crate) async fn settled(&self) {
        drop(self.0.lock().await);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_nobody_waits_for_goes_on_and_can_be_waited_for() {
        let unbroken = Unbroken::default();
        let second = Duration::from_secs(1);
        assert_eq!(unbroken.call(async { 7 }).await, 7);
        let begun = Instant::now();
        assert!(timeout(second, unbroken.call(sleep(second * 10))).await.is_err());
        unbroken.settled().await;
        assert_eq!(begun.elapsed(), second * 10);
        unbroken.settled().await;
    }
}
