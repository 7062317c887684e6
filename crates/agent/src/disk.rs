//! Disk work: one thread at a time, and nobody waits for ever.
//!
//! A blocked thread cannot be cancelled. If it were abandoned, it might later recreate folders and mounts that had been
//! removed in the meantime, so the next caller waits for it. And since a disk may hang, a caller that can do without
//! the result waits only for a limited time. At most one thread per pod hangs on its volumes, and one on its other
//! files.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use crate::off_thread::off_thread;

/// After this time, disk work is assumed to hang: callers that can do without it continue, and users are informed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A disk did not respond in time. The work continues as soon as it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waiting for the disk: {what}")]
pub(crate) struct Hangs {
    /// What it is doing.
    pub(crate) what: String,
}

/// What is being done to a disk, and since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing(Arc<parking_lot::Mutex<Option<(String, Instant)>>>);

impl Doing {
    /// Records the next step; called by the worker.
    pub(crate) fn begins(&self, what: impl Into<String>) {
        *self.0.lock() = Some((what.into(), Instant::now()));
    }

    fn ends(&self) {
        *self.0.lock() = None;
    }
}

/// A set of one pod's files, on which only one worker at a time operates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    turn: Arc<Mutex<()>>,
    doing: Doing,
}

pub(crate) struct Turn {
    doing: Doing,
    _turn: OwnedMutexGuard<()>,
}

impl Turn {
    pub(crate) fn begins(&self, what: impl Into<String>) {
        self.doing.begins(what);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.doing.ends();
    }
}

impl Disk {
    /// Waits for a turn. Its holder is the only worker until the turn is dropped.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _turn: self.turn.clone().lock_owned().await, doing: self.doing.clone() }
    }

    /// Runs disk work where it may block. The caller may stop waiting for it; the work continues, and the next caller
    /// waits until it ends. A panic is passed on to the caller.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        what: impl Into<String>,
        work: impl FnOnce(&Doing) -> T + Send + 'static,
    ) -> T {
        let turn = self.turn().await;
        turn.begins(what);
        off_thread(move || work(&turn.doing)).await
    }

    /// Does the same, but waits no longer than this; if work has already been hanging for that long, not at all.
    pub(crate) async fn work_within<T: Send + 'static>(
        &self,
        limit: Duration,
        what: impl Into<String>,
        work: impl FnOnce(&Doing) -> T + Send + 'static,
    ) -> Result<T, Hangs> {
        tokio::time::timeout(self.left_of(limit), self.work(what, work)).await.map_err(|_| self.hangs())
    }

    /// Returns how much of a caller's patience remains, counting the time that earlier callers have already waited
    /// here.
    pub(crate) fn left_of(&self, patience: Duration) -> Duration {
        patience.saturating_sub(self.busy_for())
    }

    /// Whether work is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.doing.0.lock().is_some()
    }

    fn busy_for(&self) -> Duration {
        self.doing.0.lock().as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// Returns what it is doing, for a caller that has waited long enough.
    pub(crate) fn hangs(&self) -> Hangs {
        let doing = self.doing.0.lock();
        Hangs { what: doing.as_ref().map_or_else(|| "its turn".to_owned(), |(what, _)| what.clone()) }
    }
}
