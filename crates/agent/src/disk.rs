//! What is done to the disk: one thread at a time, and nobody waits for ever.
//!
//! A thread that blocks cannot be called back. Given up, it would make folders and mounts again that were taken down meanwhile:
//! so whoever comes next waits for it. And since a disk may hang, whoever can do without waits for a time only, and at most
//! one thread of a pod hangs at its volumes and one at its other files.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use crate::off_thread::off_thread;

/// After this long, work on a disk is taken to hang: whoever can do without it does, and people are told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A disk did not answer in time. What was begun goes on as soon as it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waiting for the disk: {what}")]
pub(crate) struct Hangs {
    /// What it is at.
    pub(crate) what: String,
}

/// What is being done to a disk, and since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doing(Arc<parking_lot::Mutex<Option<(String, Instant)>>>);

impl Doing {
    /// Whoever works says what is next.
    pub(crate) fn begins(&self, what: impl Into<String>) {
        *self.0.lock() = Some((what.into(), Instant::now()));
    }

    fn ends(&self) {
        *self.0.lock() = None;
    }
}

/// Some of the files of one pod: one works on them at a time.
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
    /// Waits for a turn. Whoever has it is the only one at work, until it is dropped.
    pub(crate) async fn turn(&self) -> Turn {
        Turn { _turn: self.turn.clone().lock_owned().await, doing: self.doing.clone() }
    }

    /// Does something to the disk, where it may block. Whoever waits for it may stop waiting; the work goes on, and the
    /// next one waits for its end. Its panic is the caller's.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        what: impl Into<String>,
        work: impl FnOnce(&Doing) -> T + Send + 'static,
    ) -> T {
        let turn = self.turn().await;
        turn.begins(what);
        off_thread(move || work(&turn.doing)).await
    }

    /// The same, for who does not wait longer than this. If somebody has hung here for so long already, not at all.
    pub(crate) async fn work_within<T: Send + 'static>(
        &self,
        limit: Duration,
        what: impl Into<String>,
        work: impl FnOnce(&Doing) -> T + Send + 'static,
    ) -> Result<T, Hangs> {
        tokio::time::timeout(self.left_of(limit), self.work(what, work)).await.map_err(|_| self.hangs())
    }

    /// What is left of somebody's patience, if those count who have waited here before.
    pub(crate) fn left_of(&self, patience: Duration) -> Duration {
        patience.saturating_sub(self.busy_for())
    }

    /// Whether somebody is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.doing.0.lock().is_some()
    }

    fn busy_for(&self) -> Duration {
        self.doing.0.lock().as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// What it is at, for who has waited for long enough.
    pub(crate) fn hangs(&self) -> Hangs {
        let doing = self.doing.0.lock();
        Hangs { what: doing.as_ref().map_or_else(|| "its turn".to_owned(), |(what, _)| what.clone()) }
    }
}
