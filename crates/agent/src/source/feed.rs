//! Carries updates from the sources to the sync loop: sets in, differences out.
//!
//! Sources never wait (see [`Inbox`]); only the feed waits for the sync loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::inbox::{Inbox, News};
use super::{SourceId, SourceSet};
use crate::manifest::{Issue, Objects, Problem, Severity};
use crate::merge::{Delta, Merge, Taken};

/// How many updates may wait for the sync loop.
pub const UPDATES_IN_FLIGHT: usize = 64;

/// An update from the sources for the sync loop. The updates of one set come in this order: objects, problems, pods.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceUpdate {
    /// The config maps and secrets of a source are now these. Sent only when they have changed: the pods of that source
    /// should read them again.
    Objects {
        /// The source that they belong to.
        source: SourceId,
        /// All of them.
        objects: Arc<Objects>,
    },
    /// The problems of a source are now exactly these. Sent only when they have changed.
    Problems {
        /// The source that has them.
        source: SourceId,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// Pods changed. Whoever handles the last delta of a set should mark its source as
    /// [delivered](crate::merge::SourcesReady).
    Pods(Delta),
}

/// The task between the inbox and the sync loop. It is the sole owner of the [`Merge`].
#[derive(Debug)]
pub struct Feed {
    inbox: Inbox,
    updates: mpsc::Sender<SourceUpdate>,
    merge: Merge,
    told: BTreeMap<SourceId, Told>,
}

/// What was last sent to the sync loop about a source, apart from its pods.
#[derive(Debug, Default)]
struct Told {
    objects: Arc<Objects>,
    problems: Vec<Problem>,
    /// Whether the source had objects but no pods when it was first read, and has had none since.
    serves_nobody: Option<bool>,
}

impl Feed {
    /// Creates a feed from `inbox`, and the receiving end for the sync loop.
    #[must_use]
    pub fn new(inbox: Inbox) -> (Self, mpsc::Receiver<SourceUpdate>) {
        let (updates, receiver) = mpsc::channel(UPDATES_IN_FLIGHT);
        (Self { inbox, updates, merge: Merge::default(), told: BTreeMap::new() }, receiver)
    }

    /// Runs until the sync loop is gone.
    pub async fn run(mut self) {
        loop {
            let (source, news) = self.inbox.next().await;
            let updates = match news {
                News::Set(set) => self.updates_of(source, set),
                News::CannotTell(problems) => self.problems_of(source, problems).into_iter().collect(),
            };
            for update in updates {
                if self.updates.send(update).await.is_err() {
                    return;
                }
            }
        }
    }

    fn updates_of(&mut self, source: SourceId, set: SourceSet) -> Vec<SourceUpdate> {
        let lonely = self.serves_nobody(&source, &set);
        let lonely = lonely.then(|| Problem::warning(&*source.place, Issue::ServesNobody));
        let merged = self.merge.apply(&source, &set.pods);
        let refused = merged.refused.into_iter();
        let duplicates = refused.map(|refused| {
            let issue = match refused.taken {
                Taken::Name => Issue::Duplicate,
                Taken::Uid => Issue::DuplicateUid(refused.pod.uid.to_string()),
            };
            Problem::error(&*source.place, issue).about(format!("Pod {}", refused.pod))
        });
        let problems: Vec<Problem> = set.problems.into_iter().chain(duplicates).chain(lonely).collect();

        let mut updates = Vec::new();
        let told = self.told.entry(source.clone()).or_default();
        if told.objects != set.objects {
            told.objects = Arc::clone(&set.objects);
            updates.push(SourceUpdate::Objects { source: source.clone(), objects: set.objects });
        }
        updates.extend(self.problems_of(source, problems));
        updates.extend(merged.deltas.into_iter().map(SourceUpdate::Pods));
        updates
    }

    /// Whether the objects of a source serve no pod. Objects that appear later may merely precede their pods.
    fn serves_nobody(&mut self, source: &SourceId, set: &SourceSet) -> bool {
        let is_well = set.problems.iter().all(|problem| problem.severity == Severity::Warning);
        let is_alone = !set.objects.is_empty() && set.pods.is_empty() && is_well;
        let told = self.told.entry(source.clone()).or_default();
        let serves_nobody = is_alone && told.serves_nobody.unwrap_or(true);
        told.serves_nobody = Some(serves_nobody);
        serves_nobody
    }

    /// Logs new problems. This is the only place that does.
    fn problems_of(&mut self, source: SourceId, problems: Vec<Problem>) -> Option<SourceUpdate> {
        let told = self.told.entry(source.clone()).or_default();
        if told.problems == problems {
            return None;
        }
        let known: BTreeSet<&Problem> = told.problems.iter().collect();
        for problem in problems.iter().filter(|problem| !known.contains(problem)) {
            match problem.severity {
                Severity::Error => tracing::error!(source = %source.kind, "{problem}"),
                Severity::Warning => tracing::warn!(source = %source.kind, "{problem}"),
            }
        }
        told.problems.clone_from(&problems);
        Some(SourceUpdate::Problems { source, problems })
    }
}

#[cfg(test)]
mod tests;
