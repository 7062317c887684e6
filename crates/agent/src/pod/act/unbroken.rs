//! Calls that make something are awaited to their end, even if their pod is to end in the meantime.
//!
//! A call that is abandoned may still take effect, after everything was checked and nothing was found: a sandbox that
//! nobody knows, a container that starts when its pod is long forgotten. So it is remembered when a call was not
//! answered in time, whether or not anything still waited for it. The same holds for work on a [`Disk`]: taking a pod
//! down waits for it, ending the pod does not.

use std::future::Future;
use std::sync::Arc;

use pleg::{Clock, Stamp};
use tokio::sync::Mutex;

use crate::disk::{Disk, Hangs, PATIENCE};
use crate::off_thread::{joined, off_thread};
use crate::runtime::CallError;

/// The calls of one pod: one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Unbroken {
    clock: Clock,
    /// When a call was last abandoned without an answer. Locked by the call in progress.
    unanswered: Arc<Mutex<Option<Stamp>>>,
    /// Where its volumes are, and what they are made from.
    pub(crate) volumes: Disk,
    /// Everything else that it has on disk.
    pub(crate) files: Disk,
}

impl Unbroken {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, unanswered: Arc::default(), volumes: Disk::default(), files: Disk::default() }
    }

    /// Makes a call in a task of its own. If the caller stops waiting, the call continues. If the call panics, so does
    /// the caller.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<T, CallError> {
        let mut unanswered = self.unanswered.clone().lock_owned().await;
        let clock = self.clock.clone();
        let task = tokio::spawn(async move {
            let answer = call.await;
            if answer.as_ref().is_err_and(|error| error.failure.may_have_happened()) {
                *unanswered = Some(clock.stamp());
            }
            answer
        });
        joined(task).await
    }

    /// Takes down what the pod has on disk, once nothing else works on it. A caller that has waited long enough gets an
    /// error that names what hangs; whatever was begun continues all the same.
    pub(super) async fn take_down<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Hangs> {
        const WHAT: &str = "cleaning up after the pod";
        let left = self.volumes.left_of(PATIENCE).min(self.files.left_of(PATIENCE));
        let taking_down = async {
            let turns = (self.volumes.turn().await, self.files.turn().await);
            turns.0.begins(WHAT);
            off_thread(move || {
                let _turns = turns;
                work()
            })
            .await
        };
        let late = |_| if self.volumes.is_busy() { &self.volumes } else { &self.files };
        tokio::time::timeout(left, taking_down).await.map_err(|error| late(error).hangs())
    }

    /// Waits until no call is in progress; returns when one was last abandoned without an answer. What that call should
    /// make may still appear.
    pub(crate) async fn settled(&self) -> Option<Stamp> {
        *self.unanswered.lock().await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::disk::Doing;
    use crate::runtime::CallFailure;

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

    #[tokio::test(start_paused = true)]
    async fn work_on_the_disk_that_nobody_waits_for_is_over_before_the_next_begins() {
        let unbroken = Unbroken::new(Clock::start());
        let (began, begun) = tokio::sync::oneshot::channel();
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let (made, was_made) = std::sync::mpsc::channel();
        let making = unbroken.files.work("a hosts file", move |_| {
            began.send(()).unwrap();
            goes_on.recv().unwrap();
            made.send(()).unwrap();
        });
        tokio::select! {
            () = making => panic!("it blocks"),
            begun = begun => begun.unwrap(),
        }
        let mut taking_down = std::pin::pin!(unbroken.take_down(move || was_made.try_recv()));
        assert!(futures_util::poll!(&mut taking_down).is_pending());
        assert_eq!(unbroken.settled().await, None, "who only ends the pod does not wait for it");
        go_on.send(()).unwrap();
        assert_eq!(taking_down.await, Ok(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_disk_that_hangs_is_told_for_what_and_nobody_works_beside_it() {
        let unbroken = Unbroken::new(Clock::start());
        let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
        let hanging = tokio::spawn({
            let volumes = unbroken.volumes.clone();
            async move {
                let work = move |doing: &Doing| {
                    doing.begins("volume \"nfs\"");
                    goes_on.recv().unwrap();
                };
                volumes.work_within(PATIENCE, "volumes", work).await
            }
        });
        let hangs = Err(Hangs { what: "volume \"nfs\"".to_owned() });
        // No time passes by itself while a thread is at work.
        while unbroken.volumes.hangs() != *hangs.as_ref().unwrap_err() {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(PATIENCE + SECOND).await;
        assert_eq!(hanging.await.unwrap(), hangs.clone().map(|_: bool| ()));
        let others = unbroken.volumes.work_within(PATIENCE, "a second thread", |_| true).await;
        assert_eq!(others, hangs, "at once: it has hung for long enough");
        assert_eq!(unbroken.files.work_within(PATIENCE, "files", |_| true).await, Ok(true));
        assert_eq!(unbroken.take_down(|| true).await, hangs);
        go_on.send(()).unwrap();
        while unbroken.volumes.is_busy() {
            tokio::task::yield_now().await;
        }
        assert_eq!(unbroken.take_down(|| true).await, Ok(true));
    }
}
