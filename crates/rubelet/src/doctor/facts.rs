//! What was observed of a runtime.

use std::time::Duration;

use pleg::{Clock, Now, Report, StreamReport};
use rubelet_cri::Operation;

use super::agent::AgentFacts;
use super::readers::StalledReader;
use crate::runtime_kind::RuntimeKind;

/// Everything that a diagnosis is based on.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Why nothing else is known, if so.
    pub(crate) unreachable: Option<String>,
    /// The name and version that it reports.
    pub(crate) runtime: String,
    pub(crate) endpoint: String,
    pub(crate) kind: RuntimeKind,
    /// The conditions that it reports.
    pub(crate) conditions: Result<Vec<Condition>, Unanswered>,
    /// Facts about its lists; `None` if they were not requested.
    pub(crate) lists: Option<Result<Lists, Unanswered>>,
    pub(crate) report: Option<Report>,
    /// Facts about its events; `None` if they were not followed.
    pub(crate) stream: Option<StreamReport>,
    pub(crate) stalled_readers: Vec<StalledReader>,
    /// How far the wall clock has moved beyond the time that passed during the examination, in seconds.
    pub(crate) clock_jump: f64,
    /// How long it was observed, by the doctor or by the agent.
    pub(crate) looked_for: Duration,
    /// The agent that was asked, if any.
    pub(crate) agent: Option<AgentFacts>,
    /// What was observed of an agent that runs but does not answer.
    pub(crate) silent_agent: Option<String>,
    /// The socket of an agent that died.
    pub(crate) dead_agent: Option<String>,
    /// The runtime of an agent that no longer runs.
    pub(crate) ended_with_agent: Option<EndedRuntime>,
}

/// An embedded runtime that ended with its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedRuntime {
    /// The data folder of both.
    pub(crate) folder: String,
    /// Whether any of its containers is still running.
    pub(crate) is_anything_left: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            unreachable: None,
            runtime: String::new(),
            endpoint: String::new(),
            kind: RuntimeKind::Other,
            conditions: Ok(Vec::new()),
            lists: None,
            report: None,
            stream: None,
            stalled_readers: Vec::new(),
            clock_jump: 0.0,
            looked_for: Duration::ZERO,
            agent: None,
            silent_agent: None,
            dead_agent: None,
            ended_with_agent: None,
        }
    }
}

impl Facts {
    /// The facts about a runtime that has not even reported its version, in less time than it takes to tell slow from
    /// hung.
    pub(crate) fn of_silence(endpoint: String, waited: Duration) -> Self {
        let conditions = Err(Unanswered::Waited { operation: Operation::Version, waited });
        Self { endpoint, conditions, looked_for: waited, ..Self::default() }
    }
}

/// One condition that the runtime reports.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) is_met: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Why a call to the runtime has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// There was none within the available time.
    Waited { operation: Operation, waited: Duration },
    /// The call was refused, or never reached the runtime.
    Failed { operation: Operation, error: String, reached: bool },
}

impl Unanswered {
    /// Returns why it never reached the runtime, if that is so.
    pub(crate) fn not_reached(&self) -> Option<&str> {
        match self {
            Self::Failed { error, reached: false, .. } => Some(error),
            Self::Failed { .. } | Self::Waited { .. } => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) took: Duration,
    pub(crate) sandboxes: usize,
    pub(crate) containers: usize,
    pub(crate) running: usize,
    pub(crate) exited: usize,
    pub(crate) unreadable: usize,
    /// The size of the larger list, in bytes.
    pub(crate) size: usize,
    /// Whether one of the lists was too large for one message.
    pub(crate) in_parts: bool,
    /// The number of containers whose creation time is in the future.
    pub(crate) from_the_future: usize,
}

/// Readings of two clocks at the same moment.
#[derive(Debug)]
pub(super) struct Clocks {
    clock: Clock,
    then: Now,
}

impl Clocks {
    pub(super) fn read() -> Self {
        let clock = Clock::start();
        Self { then: clock.now(), clock }
    }

    /// How far the wall clock has moved beyond the time that has passed, in seconds.
    pub(super) fn jump(&self) -> f64 {
        let now = self.clock.now();
        let passed = self.then.stamp.until(now.stamp).as_secs_f64();
        (now.wall.0 - self.then.wall.0) as f64 / 1e9 - passed
    }
}
