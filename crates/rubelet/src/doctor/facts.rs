//! What was seen of a runtime.

use std::time::Duration;

use pleg::{Clock, Now, Report, StreamReport};
use rubelet_cri::Operation;

use super::agent::AgentFacts;
use super::readers::StalledReader;
use crate::runtime_kind::RuntimeKind;

/// Everything that a diagnosis is made of.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Why nothing else is known.
    pub(crate) unreachable: Option<String>,
    /// Its name and version, as it calls itself.
    pub(crate) runtime: String,
    pub(crate) endpoint: String,
    pub(crate) kind: RuntimeKind,
    /// What it says of itself.
    pub(crate) conditions: Result<Vec<Condition>, Unanswered>,
    /// What its lists are like; nothing if nobody asked for them.
    pub(crate) lists: Option<Result<Lists, Unanswered>>,
    pub(crate) report: Option<Report>,
    /// What its events are like; nothing if they were not followed.
    pub(crate) stream: Option<StreamReport>,
    pub(crate) stalled_readers: Vec<StalledReader>,
    /// By how much more than it should the time of day has moved while we looked, in seconds.
    pub(crate) clock_jump: f64,
    /// For how long it was looked at, by us or by the agent.
    pub(crate) looked_for: Duration,
    /// The agent that was asked, if one was.
    pub(crate) agent: Option<AgentFacts>,
    /// An agent that runs and does not answer, and what was seen of it.
    pub(crate) silent_agent: Option<String>,
    /// The socket of an agent that died.
    pub(crate) dead_agent: Option<String>,
    /// Of an agent that no longer runs.
    pub(crate) ended_with_agent: Option<EndedRuntime>,
}

/// A runtime that has ended with the agent that it was inside of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedRuntime {
    /// The folder of both.
    pub(crate) folder: String,
    /// Whether a container of it has not ended.
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
    /// Of a runtime that has not even said what it is, in less time than it takes to tell slow from hung.
    pub(crate) fn of_silence(endpoint: String, waited: Duration) -> Self {
        let conditions = Err(Unanswered::Waited { operation: Operation::Version, waited });
        Self { endpoint, conditions, looked_for: waited, ..Self::default() }
    }
}

/// One thing that the runtime says of itself.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) name: String,
    pub(crate) is_met: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Why a question to the runtime has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// None came in the time that there was.
    Waited { operation: Operation, waited: Duration },
    /// It was refused, or never reached the runtime.
    Failed { operation: Operation, error: String, reached: bool },
}

impl Unanswered {
    /// Why it never reached the runtime, if that is so.
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
    /// Of the larger one, in bytes.
    pub(crate) size: usize,
    /// Whether one of them was too large for one message.
    pub(crate) in_parts: bool,
    /// Containers that were made later than now.
    pub(crate) from_the_future: usize,
}

/// Two clocks at one moment.
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

    /// By how much more than the time that has passed the time of day has moved, in seconds.
    pub(super) fn jump(&self) -> f64 {
        let now = self.clock.now();
        let passed = self.then.stamp.until(now.stamp).as_secs_f64();
        (now.wall.0 - self.then.wall.0) as f64 / 1e9 - passed
    }
}
