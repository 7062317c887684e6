//! What users hold: a [`Pleg`] that runs, and [`Handle`]s to talk to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::registry::Registry;
use rubelet_model::PodUid;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cache::CacheReader;
use crate::clock::{Clock, Stamp};
use crate::core::{Config, PeriodReason};
use crate::driver::Driver;
use crate::feed::Subscription;
use crate::health::Health;
use crate::live_metrics::LiveMetrics;
use crate::metrics::Metrics;
use crate::observe::Observe;
use crate::report::Report;
use crate::shared::{Reach, Shared};
use crate::stream_facts::StreamFacts;

/// A pod lifecycle event generator on one runtime.
///
/// It does nothing until [started](Self::start). Dropping it ends every task of it, tells whoever still waits or
/// reads that nothing more will come, and ends its recording.
#[derive(Debug)]
pub struct Pleg<O> {
    observer: Arc<O>,
    handle: Handle,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Running {
    /// Whether it has ended, or been told to.
    fn is_ending(&self) -> bool {
        self.task.is_finished() || *self.stop.borrow()
    }
}

impl<O: Observe> Pleg<O> {
    /// A PLEG that is not running yet.
    pub fn new(observer: O, config: Config, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared::new(config, metrics));
        let handle = Handle { shared, drivers: Arc::default() };
        Self { observer: Arc::new(observer), handle, running: None }
    }

    /// Starts observing, on the current tokio runtime. Does nothing if it is running. After a
    /// [stop](Self::stop) it goes on from what it knew.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&mut self) {
        if self.running.as_ref().is_some_and(|running| !running.is_ending()) {
            return;
        }
        let before = self.running.take();
        let (stop, stopped) = watch::channel(false);
        let driver = Driver::new(self.observer.clone(), self.handle.shared.clone());
        let mark = MarkRunning::new(self.handle.drivers.clone());
        let task = tokio::spawn(async move {
            let _mark = mark;
            if let Some(before) = before {
                // There is one driver at a time. How the one before ended has no say in how this one does.
                let _ = before.task.await;
            }
            driver.run(stopped).await;
        });
        self.running = Some(Running { task, stop });
    }

    /// Stops observing: when this returns, no call is under way. Subscribers and waiters stay, for a later start.
    pub async fn stop(&mut self) {
        let Some(running) = &mut self.running else { return };
        running.stop.send_replace(true);
        if let Err(error) = (&mut running.task).await {
            tracing::error!(%error, "the pleg's task had ended by itself");
        }
        self.running = None;
    }

    /// Has everything that it is told recorded from now on, or nothing any more. Returns the recorder before it, if there
    /// was one: [`finish`](crate::record::Recorder::finish) tells whether all of it was written.
    #[cfg(feature = "record")]
    pub fn record(&self, recorder: Option<crate::record::Recorder>) -> Option<crate::record::Recorder> {
        std::mem::replace(&mut *self.handle.shared.recorder.lock(), recorder)
    }

    /// A handle for others.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl<O> Drop for Pleg<O> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.task.abort();
        }
        self.handle.shared.close();
    }
}

/// Counts a driver while its task lives, even if it panics.
#[derive(Debug)]
struct MarkRunning(Arc<AtomicUsize>);

impl MarkRunning {
    fn new(drivers: Arc<AtomicUsize>) -> Self {
        drivers.fetch_add(1, Ordering::Relaxed);
        Self(drivers)
    }
}

impl Drop for MarkRunning {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Talks to a [`Pleg`]. Cheap to clone; it does not keep the PLEG running.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    /// How many drivers run: one, or none, or for a moment one that ends and one that waits for that.
    drivers: Arc<AtomicUsize>,
}

impl Handle {
    /// Hears every event from now on. What is there already is in the [cache](Self::cache).
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.shared.feed.subscribe()
    }

    /// The newest status of every pod.
    #[must_use]
    pub fn cache(&self) -> CacheReader {
        self.shared.cache.reader()
    }

    /// Asks for a look at one pod now, for instance after acting on it. Asking often is asking once.
    pub fn nudge(&self, pod: &PodUid) {
        self.shared.requests.nudge(pod.clone(), self.shared.clock.stamp());
    }

    /// Asks that the next look at a pod inspects it even if its list view did not change. It is answered with a
    /// [`PodSync`](crate::EventKind::PodSync) if there is nothing else to tell.
    pub fn reinspect(&self, pod: &PodUid) {
        self.shared.requests.reinspect(pod.clone(), self.shared.clock.stamp());
    }

    /// Whether all is well, and if not, what hangs. Answers at once, whatever else hangs.
    #[must_use]
    pub fn health(&self) -> Health {
        let health = self.shared.health();
        if self.drivers.load(Ordering::Relaxed) > 0 { health } else { health.not_running() }
    }

    /// Everything there is to know at this moment. Answers at once, whatever else hangs.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = self.shared.report();
        report.health = self.health();
        report
    }

    /// Shows in a registry what is worked out when somebody asks: ages of calls that hang among it. The counters and
    /// histograms are registered with [`Metrics::register`](crate::Metrics::register).
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(LiveMetrics(Arc::downgrade(&self.shared))));
    }

    /// How the runtime's announcements go.
    #[must_use]
    pub fn stream_facts(&self) -> StreamFacts {
        self.shared.stream_facts()
    }

    /// Whether the runtime answers, for those who want to follow that. Closed when the [`Pleg`] is dropped, as are
    /// [`relists`](Self::relists) and [`periods`](Self::periods).
    #[must_use]
    pub fn reach(&self) -> watch::Receiver<Reach> {
        self.shared.reach.subscribe()
    }

    /// When the newest good relist that has ended was asked for. One ends when everything that it and those before it
    /// found has been inspected, or has turned out to be slow; all of that can then be read and heard.
    #[must_use]
    pub fn relists(&self) -> watch::Receiver<Option<Stamp>> {
        self.shared.relists.subscribe()
    }

    /// How often all pods are listed since that last changed, and why it did.
    #[must_use]
    pub fn periods(&self) -> watch::Receiver<Option<(Duration, PeriodReason)>> {
        self.shared.periods.subscribe()
    }

    /// The clock whose stamps [`newer_than`](CacheReader::newer_than) takes.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }
}
