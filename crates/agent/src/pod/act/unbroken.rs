//! Calls that make something are heard to their end, also if their pod is to end meanwhile.
//!
//! A call that is given up may still do its work, after everybody has looked and found nothing: a sandbox that nobody
//! knows, a container that starts when its pod is long forgotten. So when one was not answered in time is remembered,
//! whoever still waited for it.

use std::future::Future;
use std::sync::Arc;

use pleg::{Clock, Stamp};
use tokio::sync::Mutex;

use crate::runtime::{CallError, CallFailure};

/// The calls of one pod: one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Unbroken {
    clock: Clock,
    /// Held by the call that is under way: when one was last given up without an answer.
    unanswered: Arc<Mutex<Option<Stamp>>>,
}

impl Unbroken {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, unanswered: Arc::default() }
    }

    /// Makes a call in a task of its own. Whoever waits for it may stop waiting; the call goes on. Its panic is the
    /// caller's.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<T, CallError> {
        let mut unanswered = self.unanswered.clone().lock_owned().await;
        let clock = self.clock.clone();
        let task = tokio::spawn(async move {
            let answer = call.await;
            if answer.as_ref().is_err_and(|error| error.failure == CallFailure::Timeout) {
                *unanswered = Some(clock.stamp());
            }
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

    /// When no call is under way: when one was last given up without an answer. What it should make may be made yet.
    pub(crate) async fn settled(&self) -> Option<Stamp> {
        *self.unanswered.lock().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_call_that_nobody_waits_for_goes_on_and_can_be_waited_for() {
        let unbroken = Unbroken::new(Clock::start());
        assert_eq!(unbroken.call(async { Ok(7) }).await.unwrap(), 7);
        let begun = Instant::now();
        let slow = async {
            sleep(SECOND * 10).await;
            Ok(())
        };
        assert!(timeout(SECOND, unbroken.call(slow)).await.is_err());
        assert_eq!(unbroken.settled().await, None);
        assert_eq!(begun.elapsed(), SECOND * 10);
        assert_eq!(unbroken.settled().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_answered_is_remembered_though_nobody_waited_for_it() {
        let clock = Clock::start();
        let unbroken = Unbroken::new(clock.clone());
        let failing = |failure| async move {
            sleep(SECOND * 10).await;
            Err::<(), _>(CallError { failure, message: "gone".into() })
        };
        assert!(timeout(SECOND, unbroken.call(failing(CallFailure::Refused))).await.is_err());
        assert_eq!(unbroken.settled().await, None, "it was answered");
        let asked = clock.stamp();
        assert!(timeout(SECOND, unbroken.call(failing(CallFailure::Timeout))).await.is_err());
        let given_up = unbroken.settled().await.unwrap();
        assert!(asked.until(given_up) >= SECOND * 10);
    }
}
