//! Takes statuses to a sink, a few at a time. A sink that is slow is told less; one that fails is told again, later.

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

/// How many deliveries are under way at the same time; never two of one pod.
const AT_ONCE: usize = 4;

/// Somebody who wants to know how pods are: the disk, an API server.
///
/// It gets the newest status of a pod, not every one: what changes while it is busy is merged. It holds up nobody.
pub trait StatusSink: Send + Sync + 'static {
    /// Why it could not take a status.
    type Error: Display + Send;

    /// What to call it in logs.
    fn name(&self) -> &'static str;

    /// How much haste it wants. The end of a pod is told at once in any case.
    fn pace(&self) -> Pace {
        Pace::default()
    }

    /// Takes a status. What fails is tried again, later and later, with the newest there is then.
    fn take(&self, uid: &PodUid, view: &PodView) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Brings statuses to one sink for as long as it runs.
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

    /// Runs until `stop` is ready, and then a little longer: what waits is told, whatever the pace, within `patience`.
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
