//! The scripted behaviour of containers that are started by a call.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::change::Exit;
use super::{Container, World};

/// The behaviour of a container. By default it starts, runs until it is asked to stop, and then exits at once with code
/// 143.
#[derive(Clone, Debug, Default)]
pub struct Behavior {
    pub(crate) start: OnStart,
    pub(crate) stop: OnStop,
}

/// The result of `StartContainer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnStart {
    /// It runs.
    #[default]
    Run,
    /// The call fails with this text.
    Fail(String),
    /// It exits before anyone could look.
    ExitAtOnce(Exit),
    /// It runs for this long, in tokio's time.
    ExitAfter(Duration, Exit),
}

/// The reaction to the stop signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// It exits after this long, in tokio's time.
    Exit(Duration, Exit),
    /// It ignores the signal: only a kill ends it.
    Ignore,
}

impl Default for OnStop {
    fn default() -> Self {
        Self::Exit(Duration::ZERO, Exit::code(143))
    }
}

impl Behavior {
    /// Sets the result of a start.
    #[must_use]
    pub fn on_start(mut self, start: OnStart) -> Self {
        self.start = start;
        self
    }

    /// Sets the reaction to the stop signal.
    #[must_use]
    pub fn on_stop(mut self, stop: OnStop) -> Self {
        self.stop = stop;
        self
    }
}

/// The result of a command in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecResult {
    /// What it writes to stdout.
    pub stdout: Vec<u8>,
    /// What it writes to stderr.
    pub stderr: Vec<u8>,
    /// Its exit code.
    pub exit_code: i32,
    /// How long it takes, in tokio's time.
    pub takes: Duration,
}

impl ExecResult {
    /// A command that ends at once with this code.
    #[must_use]
    pub fn code(exit_code: i32) -> Self {
        Self { exit_code, ..Self::default() }
    }

    /// Sets its output on stdout.
    #[must_use]
    pub fn stdout(mut self, stdout: impl Into<Vec<u8>>) -> Self {
        self.stdout = stdout.into();
        self
    }

    /// Sets how long it takes.
    #[must_use]
    pub fn takes(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }
}

/// All scripts. Containers are named `pod/container`, or `container` for the one of that name in every pod.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    behaviors: HashMap<String, Behavior>,
    execs: HashMap<String, VecDeque<ExecResult>>,
}

impl World {
    /// Scripts the behaviour of containers that are started by calls: of `container` in every pod, or of
    /// `pod/container`, which takes precedence.
    pub fn behave(&mut self, container: impl Into<String>, behavior: Behavior) {
        self.scripts.behaviors.insert(container.into(), behavior);
    }

    /// Scripts the results of `ExecSync` in a container, call by call; the last one applies to all further calls.
    /// Containers are named as in [`World::behave`]. Without a script, every command succeeds silently.
    pub fn on_exec(&mut self, container: impl Into<String>, results: impl IntoIterator<Item = ExecResult>) {
        self.scripts.execs.insert(container.into(), results.into_iter().collect());
    }

    pub(crate) fn behavior_of(&self, container: &Container) -> Behavior {
        let behaviors = &self.scripts.behaviors;
        let scripted = behaviors.get(&self.path_of(container)).or_else(|| behaviors.get(container.name()));
        scripted.cloned().unwrap_or_default()
    }

    pub(crate) fn next_exec(&mut self, path: &str) -> ExecResult {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let key = if self.scripts.execs.contains_key(path) { path } else { name };
        match self.scripts.execs.get_mut(key) {
            Some(results) if results.len() > 1 => results.pop_front().unwrap_or_default(),
            Some(results) => results.front().cloned().unwrap_or_default(),
            None => ExecResult::default(),
        }
    }

    /// `pod/container`
    pub(crate) fn path_of(&self, container: &Container) -> String {
        let sandbox = self.sandboxes.get(container.sandbox());
        let metadata = sandbox.and_then(|sandbox| sandbox.config.metadata.as_ref());
        format!("{}/{}", metadata.map_or("", |metadata| &metadata.name), container.name())
    }
}
