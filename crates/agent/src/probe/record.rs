//! The results of probes, kept on disk so that a restarted agent continues from there. Otherwise every restart of the
//! agent would make ready containers unready for a moment, and would restart the startup probes of slow ones.
//!
//! Reading and writing block: call them off the async threads.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_model::{ContainerId, PodRef};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::course::{Kind, Verdict};
use super::verdicts::Verdicts;
use crate::disk::Disk;
use crate::pod_file::{self, Outlives};

/// How long to wait after a disk failure.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What remains true for an instance of a container, however often the agent restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    started: bool,
    ready: bool,
}

impl Known {
    /// Returns the verdict from which a probe of this kind continues. A liveness probe starts over: one that had failed
    /// would fail again.
    pub(super) fn by(self, kind: Kind) -> Option<Verdict> {
        let holds = match kind {
            Kind::Startup => self.started,
            Kind::Liveness => false,
            Kind::Readiness => self.ready,
        };
        holds.then_some(Verdict::Success)
    }
}

/// What is known about the instances of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    containers: BTreeMap<String, Known>,
}

impl Record {
    pub(super) fn of(verdicts: &Verdicts) -> Self {
        let known = |(id, verdicts): (&ContainerId, super::OfContainer)| {
            let known = Known {
                started: verdicts.startup == Some(Verdict::Success),
                ready: verdicts.readiness == Some(Verdict::Success),
            };
            (known != Known::default()).then(|| (id.to_string(), known))
        };
        Self { containers: verdicts.all().filter_map(known).collect() }
    }

    pub(super) fn get(&self, id: &ContainerId) -> Known {
        self.containers.get(id.as_str()).copied().unwrap_or_default()
    }

    /// Reads a record. If it is missing or damaged, nothing is known.
    pub(crate) fn read(path: &Path) -> Self {
        pod_file::read_or_default(path, "earlier probe results")
    }

    /// Writes the record, if the pod's folder exists.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        pod_file::write(path, self, Outlives::Agent)
    }
}

/// Writes this record, and every one that is sent later, until the sender is dropped; the newest wins. Failed writes
/// are retried.
pub(super) fn keep(first: Record, path: PathBuf, disk: Disk, pod: &PodRef) -> watch::Sender<Record> {
    let (sender, mut news) = watch::channel(first);
    news.mark_changed();
    let pod = pod.clone();
    tokio::spawn(async move {
        let mut has_failed = false;
        while news.changed().await.is_ok() {
            let (record, path) = (news.borrow_and_update().clone(), path.clone());
            let written = disk.work("probe results", move |_| record.write(&path)).await;
            if let Err(error) = &written {
                if !has_failed {
                    tracing::warn!(%pod, %error, "cannot save probe results yet");
                }
                news.mark_changed();
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            has_failed = written.is_err();
        }
    });
    sender
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::OfContainer;

    #[test]
    fn what_was_started_and_ready_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probes.json");
        let verdict =
            |startup, readiness| OfContainer { startup, liveness: Some(Verdict::Failure), readiness };
        let verdicts = Verdicts::default()
            .with("a", verdict(Some(Verdict::Success), Some(Verdict::Failure)))
            .with("b", verdict(None, Some(Verdict::Success)))
            .with("c", verdict(None, None));
        assert_eq!(Record::read(&path), Record::default());
        Record::of(&verdicts).write(&path).unwrap();
        let known = Record::read(&path);
        let told = |id: &str| Kind::ALL.map(|kind| known.get(&id.into()).by(kind).is_some());
        assert_eq!(
            [told("a"), told("b"), told("c"), told("other")],
            [[true, false, false], [false, false, true], [false; 3], [false; 3]]
        );
    }

    #[test]
    fn a_damaged_record_and_a_folder_that_is_gone_are_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probes.json");
        std::fs::write(&path, "{\"containers\": 5").unwrap();
        assert_eq!(Record::read(&path), Record::default());
        Record::default().write(&folder.path().join("gone/probes.json")).unwrap();
    }
}
