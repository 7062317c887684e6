//! What the driver writes and the handles read.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::CacheWriter;
use crate::clock::{Clock, Stamp};
use crate::core::{Config, Core, Effect, Input, Measure};
use crate::feed::Feed;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::observe::ObserveError;
use crate::progress::CallBoard;
use crate::requests::Requests;

/// Whether the runtime answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It has not been asked yet.
    Unasked,
    /// It answered the last list, over this connection.
    Reached {
        /// Grows with every connection.
        epoch: u64,
    },
    /// It did not answer the last list.
    Lost {
        /// Why not.
        error: ObserveError,
    },
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Stepped by the driver only; locked by others just long enough to read facts. Never across an await.
    core: Mutex<Core>,
    pub(crate) cache: CacheWriter,
    pub(crate) feed: Feed,
    pub(crate) requests: Arc<Requests>,
    pub(crate) board: CallBoard,
    pub(crate) reach: watch::Sender<Reach>,
    /// When the newest good relist that has ended was asked for.
    pub(crate) relists: watch::Sender<Option<Stamp>>,
    metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(config: Config, metrics: Metrics) -> Self {
        let clock = Clock::start();
        metrics.period.set(config.relist_period.as_secs_f64());
        let requests = Arc::<Requests>::default();
        Self {
            config,
            core: Mutex::new(Core::new(config, clock.stamp())),
            cache: CacheWriter::new(requests.clone()),
            feed: Feed::default(),
            requests,
            board: CallBoard::new(clock.clone()),
            reach: watch::Sender::new(Reach::Unasked),
            relists: watch::Sender::new(None),
            metrics,
            clock,
        }
    }

    pub(crate) fn step(&self, input: Input) -> Vec<Effect> {
        let now = self.clock.now();
        let listed = match &input {
            Input::Listed { asked, answer } => Some((*asked, answer.is_ok())),
            _ => None,
        };
        let mut core = self.core.lock();
        let effects = core.step(input, now);
        self.metrics
            .inspections_in_flight
            .set(i64::try_from(core.inspections_in_flight()).unwrap_or(i64::MAX));
        if let Some((asked, is_good)) = listed {
            let stuck = core.troubled_pods(now.stamp).len();
            self.metrics.stuck_pods.set(i64::try_from(stuck).unwrap_or(i64::MAX));
            if is_good {
                let wall = Duration::from_nanos(u64::try_from(now.wall.0).unwrap_or(0));
                self.metrics.last_seen.set(wall.saturating_sub(asked.until(now.stamp)).as_secs_f64());
            }
        }
        effects
    }

    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.core.lock().next_tick().map(|stamp| self.clock.instant(stamp))
    }

    /// Everything under way was given up.
    pub(crate) fn interrupted(&self) {
        let effects = self.step(Input::Interrupted);
        debug_assert!(effects.is_empty(), "an interrupted pleg asks for nothing");
        self.requests.forget_stream();
    }

    /// Carries out an effect that needs no call.
    pub(crate) fn publish(&self, effect: Effect) {
        match effect {
            Effect::Store { pod, status, asked } => self.cache.store(&pod, status, asked),
            Effect::Forget { pod } => self.cache.forget(&pod),
            Effect::Hold { pod } => self.cache.hold(pod),
            Effect::Settle { pod, asked } => self.cache.settle(&pod, asked),
            Effect::Advance { asked, proves_absence } => self.cache.advance(asked, proves_absence),
            Effect::Tell(event) => {
                if event.kind.is_delivered() {
                    self.feed.tell(event);
                }
            }
            Effect::Measure(measure) => self.measure(measure),
            Effect::List { .. } | Effect::Look { .. } | Effect::Inspect { .. } | Effect::Abandon { .. } => {
                unreachable!("calls are made by the driver")
            }
        }
    }

    fn measure(&self, measure: Measure) {
        self.metrics.observe(measure);
        if let Measure::Relist { asked: Some(asked), .. } = measure {
            self.relists.send_replace(Some(asked));
        }
    }

    pub(crate) fn health(&self) -> Health {
        let calls = self.board.calls();
        let now = self.clock.stamp();
        let (list, pods, last_inspection) = {
            let core = self.core.lock();
            (core.list_facts().clone(), core.troubled_pods(now), core.last_inspection())
        };
        let health = Health::assess(&list, pods, &calls, self.config.relist_threshold, now);
        Health { last_inspection: last_inspection.map(|begun| begun.until(now)), ..health }
    }
}
