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

/// A pod lifecycle event generator for one runtime.
///
/// It does nothing until it is [started](Self::start). Dropping it ends all of its tasks, its subscriptions, the waits
/// on its cache, and its recording.
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
    /// Whether it has ended, or was requested to.
    fn is_ending(&self) -> bool {
        self.task.is_finished() || *self.stop.borrow()
    }
}

impl<O: Observe> Pleg<O> {
    /// Creates a PLEG that is not running yet.
    pub fn new(observer: O, config: Config, metrics: Metrics) -> Self {
        let shared = Arc::new(Shared::new(config, metrics));
        let handle = Handle { shared, drivers: Arc::default() };
        Self { observer: Arc::new(observer), handle, running: None }
    }

    /// Starts observing, on the current tokio runtime. Does nothing if it is already running. After a
    /// [stop](Self::stop) it continues from what it knew.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime.
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
                // There is only one driver at a time. How the previous one ended does not matter to this one.
                let _ = before.task.await;
            }
            driver.run(stopped).await;
        });
        self.running = Some(Running { task, stop });
    }

    /// Stops observing: when this returns, no call is in progress. Subscriptions and waits on the cache stay, for a
    /// later start.
    pub async fn stop(&mut self) {
        let Some(running) = &mut self.running else { return };
        running.stop.send_replace(true);
        if let Err(error) = (&mut running.task).await {
            tracing::error!(%error, "the PLEG task panicked");
        }
        self.running = None;
    }

    /// Records every input from now on; `None` stops recording. Returns the previous recorder, if any; its
    /// [`finish`](crate::record::Recorder::finish) says whether everything was written.
    #[cfg(feature = "record")]
    pub fn record(&self, recorder: Option<crate::record::Recorder>) -> Option<crate::record::Recorder> {
        std::mem::replace(&mut *self.handle.shared.recorder.lock(), recorder)
    }

    /// Returns a handle for others.
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

/// A handle to a [`Pleg`]. It is cheap to clone, and does not keep the PLEG running.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    /// The number of driver tasks: none, one, or, for a moment, one that is ending and one that waits for that.
    drivers: Arc<AtomicUsize>,
}

impl Handle {
    /// Subscribes to all events from now on. What exists already is in the [cache](Self::cache).
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.shared.feed.subscribe()
    }

    /// Returns the cache with the newest status of every pod.
    #[must_use]
    pub fn cache(&self) -> CacheReader {
        self.shared.cache.reader()
    }

    /// Asks for a look at one pod now, for instance after acting on it. Several requests at once count as one.
    pub fn nudge(&self, pod: &PodUid) {
        self.shared.requests.nudge(pod.clone(), self.shared.clock.stamp());
    }

    /// Asks for an inspection of a pod after its next list, even if its list view has not changed; that list comes
    /// within [`Config::relist_period`]. If there is nothing else to report, subscribers get a
    /// [`PodSync`](crate::EventKind::PodSync).
    pub fn reinspect(&self, pod: &PodUid) {
        self.shared.requests.reinspect(pod.clone(), self.shared.clock.stamp());
    }

    /// Returns whether all is well and, if not, what hangs. Answers at once, whatever hangs.
    #[must_use]
    pub fn health(&self) -> Health {
        let health = self.shared.health();
        if self.drivers.load(Ordering::Relaxed) > 0 { health } else { health.not_running() }
    }

    /// Returns everything there is to know at this moment. Answers at once, whatever hangs.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut report = self.shared.report();
        report.health = self.health();
        report
    }

    /// Registers the metrics that are computed on demand, such as the age of a call that hangs. Counters and histograms
    /// are registered with [`Metrics::register`](crate::Metrics::register).
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(LiveMetrics(Arc::downgrade(&self.shared))));
    }

    /// Returns the statistics of the event stream.
    #[must_use]
    pub fn stream_facts(&self) -> StreamFacts {
        self.shared.stream_facts()
    }

    /// Watches whether the runtime answers. The channel closes when the [`Pleg`] is dropped, as do those of
    /// [`relists`](Self::relists) and [`periods`](Self::periods).
    #[must_use]
    pub fn reach(&self) -> watch::Receiver<Reach> {
        self.shared.reach.subscribe()
    }

    /// Watches the stamp at which the latest completed relist was requested; failed relists do not count. A relist is
    /// complete once everything that it and earlier ones found has been inspected (or has proved slow): the results are
    /// then in the cache, and their events have been sent.
    #[must_use]
    pub fn relists(&self) -> watch::Receiver<Option<Stamp>> {
        self.shared.relists.subscribe()
    }

    /// Watches the current period between full lists, and why it last changed; `None` until it changes for the first
    /// time.
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
