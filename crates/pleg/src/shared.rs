//! The state that the driver writes and the handles read.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cache::CacheWriter;
use crate::clock::{Clock, JumpWatch, Stamp};
use crate::core::{Config, Core, Effect, Input, Measure, News, PeriodReason};
use crate::feed::Feed;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::observe::ObserveError;
use crate::progress::CallBoard;
use crate::report::Report;
use crate::requests::Requests;
use crate::stream_facts::StreamFacts;
use crate::told::Told;

/// Whether the runtime answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It has not been asked yet.
    Unasked,
    /// It answered the last full list.
    Reached {
        /// The number of the connection that it answered over; it grows with every connection.
        epoch: u64,
    },
    /// It did not answer the last full list.
    Lost {
        /// The error of the list.
        error: ObserveError,
    },
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Stepped only by the driver; others lock it just long enough to read facts. Never locked across an await.
    core: Mutex<Core>,
    pub(crate) cache: CacheWriter,
    pub(crate) feed: Feed,
    pub(crate) requests: Arc<Requests>,
    pub(crate) board: CallBoard,
    pub(crate) reach: Told<Reach>,
    /// When the latest completed relist was requested.
    pub(crate) relists: Told<Option<Stamp>>,
    /// The current period between full lists, and why it last changed.
    pub(crate) periods: Told<Option<(Duration, PeriodReason)>>,
    /// Fed with the readings of the clock at every step.
    jumps: Mutex<JumpWatch>,
    pub(crate) metrics: Metrics,
    #[cfg(feature = "record")]
    pub(crate) recorder: Mutex<Option<crate::record::Recorder>>,
}

impl Shared {
    pub(crate) fn new(config: Config, metrics: Metrics) -> Self {
        let clock = Clock::start();
        let core = Core::new(config, clock.stamp());
        metrics.period.set(core.period().as_secs_f64());
        let requests = Arc::<Requests>::default();
        Self {
            config,
            core: Mutex::new(core),
            cache: CacheWriter::new(requests.clone()),
            feed: Feed::default(),
            requests,
            board: CallBoard::new(clock.clone()),
            reach: Told::new(Reach::Unasked),
            relists: Told::new(None),
            periods: Told::new(None),
            jumps: Mutex::default(),
            metrics,
            #[cfg(feature = "record")]
            recorder: Mutex::default(),
            clock,
        }
    }

    pub(crate) fn step(&self, input: Input) -> Vec<Effect> {
        let now = self.clock.now();
        self.jumps.lock().read(now);
        let listed = match &input {
            Input::Listed { asked, answer } => Some((*asked, answer.is_ok())),
            _ => None,
        };
        let mut core = self.core.lock();
        #[cfg(feature = "record")]
        if let Some(recorder) = &mut *self.recorder.lock() {
            self.metrics.recorded(recorder.note(&core, &input, now));
        }
        let effects = core.step(input, now);
        self.metrics
            .inspections_in_flight
            .set(i64::try_from(core.inspections_in_flight()).unwrap_or(i64::MAX));
        if let Some((asked, true)) = listed {
            let wall = Duration::from_nanos(u64::try_from(now.wall.0).unwrap_or(0));
            self.metrics.last_seen.set(wall.saturating_sub(asked.until(now.stamp)).as_secs_f64());
        }
        effects
    }

    /// Ends everything that handles wait for or read from.
    pub(crate) fn close(&self) {
        self.cache.close();
        self.feed.close();
        self.reach.close();
        self.relists.close();
        self.periods.close();
        #[cfg(feature = "record")]
        drop(self.recorder.lock().take());
    }

    pub(crate) fn next_tick(&self) -> Option<Instant> {
        self.core.lock().next_tick().map(|stamp| self.clock.instant(stamp))
    }

    /// Notes that all calls in progress were given up.
    pub(crate) fn interrupted(&self) {
        // The core may have something to publish, but there is no driver to make a call.
        for effect in self.step(Input::Interrupted) {
            if let Effect::Publish(news) = effect {
                self.publish(news);
            }
        }
        self.requests.forget_stream();
    }

    /// Makes news known to readers.
    pub(crate) fn publish(&self, news: News) {
        match news {
            News::Store { pod, status, asked } => self.cache.store(&pod, status, asked),
            News::Forget { pod } => self.cache.forget(&pod),
            News::Hold { pod } => self.cache.hold(pod),
            News::Settle { pod, asked } => self.cache.settle(&pod, asked),
            News::Advance { asked, proves_absence } => self.cache.advance(asked, proves_absence),
            News::Tell(event) => {
                if event.kind.is_delivered() {
                    self.feed.tell(event);
                }
            }
            News::Measure(measure) => self.measure(measure),
        }
    }

    fn measure(&self, measure: Measure) {
        self.metrics.observe(measure);
        match measure {
            Measure::Relist { asked: Some(asked), .. } => {
                self.relists.tell(Some(asked));
            }
            Measure::Period { period, reason } => {
                self.periods.tell(Some((period, reason)));
            }
            _ => {}
        }
    }

    pub(crate) fn report(&self) -> Report {
        let calls = self.board.calls();
        let now = self.clock.stamp();
        let mut report = Report::new(&self.core.lock(), &calls, now);
        report.clock_jump = self.jumps.lock().newest(now);
        #[cfg(feature = "record")]
        {
            let hindrance = self.recorder.lock().as_ref().and_then(crate::record::Recorder::hindrance);
            report.not_recorded = hindrance.map(Into::into);
        }
        report
    }

    pub(crate) fn stream_facts(&self) -> StreamFacts {
        self.core.lock().stream_facts().clone()
    }

    pub(crate) fn health(&self) -> Health {
        let calls = self.board.calls();
        let now = self.clock.stamp();
        self.core.lock().health(&calls, now)
    }
}
