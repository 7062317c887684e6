//! What the driver writes and the handles read.

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::CacheWriter;
use crate::clock::Clock;
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
    pub(crate) requests: Requests,
    pub(crate) board: CallBoard,
    pub(crate) reach: watch::Sender<Reach>,
    /// How many relists have ended.
    pub(crate) relists: watch::Sender<u64>,
    metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(config: Config, metrics: Metrics) -> Self {
        let clock = Clock::start();
        Self {
            config,
            core: Mutex::new(Core::new(config, clock.stamp())),
            cache: CacheWriter::new(),
            feed: Feed::default(),
            requests: Requests::default(),
            board: CallBoard::new(clock.clone()),
            reach: watch::Sender::new(Reach::Unasked),
            relists: watch::Sender::new(0),
            metrics,
            clock,
        }
    }

    pub(crate) fn step(&self, input: Input) -> Vec<Effect> {
        let now = self.clock.now();
        let was_listed = matches!(input, Input::Listed { answer: Ok(_), .. });
        let mut core = self.core.lock();
        let effects = core.step(input, now);
        self.metrics
            .inspections_in_flight
            .set(i64::try_from(core.inspections_in_flight()).unwrap_or(i64::MAX));
        if was_listed {
            let stuck = core.troubled_pods(now.stamp).len();
            self.metrics.stuck_pods.set(i64::try_from(stuck).unwrap_or(i64::MAX));
            #[expect(clippy::cast_precision_loss, reason = "a gauge of seconds needs no nanoseconds")]
            self.metrics.last_seen.set(now.wall.0 as f64 / 1e9);
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
    }

    /// Carries out an effect that needs no call.
    pub(crate) fn publish(&self, effect: Effect) {
        match effect {
            Effect::Store { pod, status, asked } => self.cache.store(&pod, status, asked),
            Effect::Forget { pod } => self.cache.forget(&pod),
            Effect::Hold { pod } => self.cache.hold(pod),
            Effect::Settle { pod, asked } => self.cache.settle(&pod, asked),
            Effect::Advance { asked } => self.cache.advance(asked),
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
        if matches!(measure, Measure::Relist(_)) {
            self.relists.send_modify(|relists| *relists += 1);
        }
    }

    pub(crate) fn health(&self) -> Health {
        let calls = self.board.calls();
        let now = self.clock.stamp();
        let (list, pods) = {
            let core = self.core.lock();
            (core.list_facts().clone(), core.troubled_pods(now))
        };
        Health::assess(&list, pods, &calls, self.config.relist_threshold, now)
    }
}
