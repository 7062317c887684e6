//! From the sources to the sync loop: sets in, differences out.
//!
//! Sources never wait: a newer set of a source replaces one that was not yet looked at. Only the feed waits for the sync
//! loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use super::{SourceId, SourceSet};
use crate::manifest::{Issue, Objects, Problem};
use crate::merge::{Delta, Merge};

/// How many updates may wait for the sync loop.
pub const UPDATES_IN_FLIGHT: usize = 64;

/// What the sync loop hears from the sources. For one set, in this order: objects, problems, pods.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceUpdate {
    /// The config maps and secrets of a source are now these. Sent only when they changed: the pods of that source
    /// should look at them again.
    Objects {
        /// Whose.
        source: SourceId,
        /// All of them.
        objects: Arc<Objects>,
    },
    /// What is wrong with a source is now this, and nothing else. Sent only when it changed.
    Problems {
        /// Whose.
        source: SourceId,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// Pods changed. Whoever handled the last of a set should mark its source as [delivered](crate::merge::SourcesReady).
    Pods(Delta),
}

/// Where sources leave their sets: one place for each, the newest wins.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    sets: Mutex<BTreeMap<SourceId, SourceSet>>,
    changed: Notify,
}

impl Inbox {
    /// The sending end for one source.
    #[must_use]
    pub fn sender(&self, source: SourceId) -> SetSender {
        SetSender { source, inbox: Arc::clone(&self.0) }
    }

    /// Waits for a set. Safe to cancel.
    pub async fn next(&self) -> (SourceId, SourceSet) {
        loop {
            let changed = self.0.changed.notified();
            if let Some(first) = self.0.sets.lock().pop_first() {
                return first;
            }
            changed.await;
        }
    }
}

/// Sends the sets of one source. Never waits.
#[derive(Debug)]
pub struct SetSender {
    source: SourceId,
    inbox: Arc<Waiting>,
}

impl SetSender {
    /// This is now all that the source knows.
    pub fn send(&self, set: SourceSet) {
        self.inbox.sets.lock().insert(self.source.clone(), set);
        self.inbox.changed.notify_one();
    }
}

/// The task between the inbox and the sync loop. It alone owns the [`Merge`].
#[derive(Debug)]
pub struct Feed {
    inbox: Inbox,
    updates: mpsc::Sender<SourceUpdate>,
    merge: Merge,
    told: BTreeMap<SourceId, Told>,
}

/// What the sync loop was last told of a source, apart from its pods.
#[derive(Debug, Default)]
struct Told {
    objects: Arc<Objects>,
    problems: Vec<Problem>,
}

impl Feed {
    /// A feed from `inbox`, and the receiving end for the sync loop.
    #[must_use]
    pub fn new(inbox: Inbox) -> (Self, mpsc::Receiver<SourceUpdate>) {
        let (updates, receiver) = mpsc::channel(UPDATES_IN_FLIGHT);
        (Self { inbox, updates, merge: Merge::default(), told: BTreeMap::new() }, receiver)
    }

    /// Runs until the sync loop has gone. `wall_clock` is asked for the moment a pod is first seen.
    pub async fn run(mut self, wall_clock: impl Fn() -> Timestamp + Send) {
        loop {
            let (source, set) = self.inbox.next().await;
            for update in self.updates_of(source, set, wall_clock()) {
                if self.updates.send(update).await.is_err() {
                    return;
                }
            }
        }
    }

    fn updates_of(&mut self, source: SourceId, set: SourceSet, now: Timestamp) -> Vec<SourceUpdate> {
        let merged = self.merge.apply(&source, &set.pods, now);
        let duplicates = merged.refused.into_iter().map(|refused| {
            Problem::error(&*source.place, Issue::Duplicate).about(format!("Pod {}", refused.pod))
        });
        let problems: Vec<Problem> = set.problems.into_iter().chain(duplicates).collect();

        let told = self.told.entry(source.clone()).or_default();
        let mut updates = Vec::new();
        if told.objects != set.objects {
            told.objects = Arc::clone(&set.objects);
            updates.push(SourceUpdate::Objects { source: source.clone(), objects: set.objects });
        }
        if told.problems != problems {
            told.problems.clone_from(&problems);
            updates.push(SourceUpdate::Problems { source, problems });
        }
        updates.extend(merged.deltas.into_iter().map(SourceUpdate::Pods));
        updates
    }
}
