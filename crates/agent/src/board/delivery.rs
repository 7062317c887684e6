//! Delivers statuses to a sink, a few at a time. A slow sink gets fewer of them; after a failure the delivery is
//! retried.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pleg::Clock;
use rubelet_model::PodUid;
use tokio::time::Instant;

use super::PodView;
use super::outbox::Outbox;
pub use super::outbox::Pace;

/// How many deliveries may be in progress at the same time; never two for the same pod.
const AT_ONCE: usize = 4;

/// A receiver of pod statuses, such as the disk or an API server.
///
/// It gets the newest status of a pod, not every one: changes that happen while it is busy are merged. It holds up
/// nothing else.
pub trait StatusSink: Send + Sync + 'static {
    /// Why the sink could not take a status.
    type Error: Display + Send;

    /// Returns the name to use in logs.
    fn name(&self) -> &'static str;

    /// Returns how quickly it wants statuses. The end of a pod is delivered at once in any case.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Takes a status. A failure is retried at growing intervals, with the newest status at that time.
    fn take(&self, uid: &PodUid, view: &PodView) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Delivers statuses to one sink for as long as it runs.
#[derive(Debug)]
pub struct Delivery<S> {
    sink: S,
    outbox: Outbox,
    clock: Clock,
}

impl<S: StatusSink> Delivery<S> {
    pub(super) fn new(sink: S, outbox: Outbox, clock: Clock) -> Self {
        Self { sink, outbox, clock }
    }

    /// Runs until `stop` is ready, and then a little longer: whatever waits is delivered within `patience`, regardless
    /// of the pace.
    pub async fn run(self, stop: impl Future<Output = ()>, patience: Duration) {
        let mut stop = std::pin::pin!(stop);
        let mut deadline = None;
        let mut under_way = FuturesUnordered::new();
        loop {
            let pace = if deadline.is_none() { self.sink.pace() } else { Pace::default() };
            while under_way.len() < AT_ONCE
                && let Some((uid, view)) = self.outbox.with(|slots| slots.take(pace, self.clock.stamp()))
            {
                under_way.push(self.one(uid, view));
            }
            let has_room = under_way.len() < AT_ONCE;
            let next = self.outbox.with(|slots| slots.next_due(pace)).filter(|_| has_room);
            if deadline.is_some() && next.is_none() && under_way.is_empty() {
                return;
            }
            tokio::select! {
                () = &mut stop, if deadline.is_none() => deadline = Some(Instant::now() + patience),
                () = sleep_until(deadline) => {
                    tracing::warn!(sink = self.sink.name(), "not all statuses could be delivered before shutdown");
                    return;
                }
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
                () = self.outbox.rung(), if has_room => {}
                () = sleep_until(next.map(|next| self.clock.instant(next))) => {}
            }
        }
    }

    async fn one(&self, uid: PodUid, view: Arc<PodView>) {
        match self.sink.take(&uid, &view).await {
            Ok(()) => self.outbox.with(|slots| slots.delivered(&uid)),
            Err(error) => {
                let now = self.clock.stamp();
                if let Some(times) = self.outbox.with(|slots| slots.failed(&uid, &view, now)) {
                    tracing::warn!(sink = self.sink.name(), pod = %uid, %error, times, "cannot deliver a status, \
                                                                                        trying again");
                }
            }
        }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
