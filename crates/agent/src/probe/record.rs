//! What probes had found out, on disk: an agent that comes back goes on from there. Without it, whatever was ready would
//! be unready for a moment at every restart of the agent, and whatever takes long to start would be asked whether it has
//! started all over again.
//!
//! All of this blocks: call it off the async threads.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rubelet_model::ContainerId;
use serde::{Deserialize, Serialize};

use super::course::{Kind, Verdict};
use super::verdicts::Verdicts;
use crate::pod_file::{self, Outlives};

/// What stays true of an instance of a container however often the agent restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Known {
    started: bool,
    ready: bool,
}

impl Known {
    /// What a probe of this kind goes on from. A liveness probe begins anew: one that had failed would fail again.
    pub(super) fn by(self, kind: Kind) -> Option<Verdict> {
        let holds = match kind {
            Kind::Startup => self.started,
            Kind::Liveness => false,
            Kind::Readiness => self.ready,
        };
        holds.then_some(Verdict::Success)
    }
}

/// What is known of the instances of a pod's containers.
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

    /// Reads it. One that is not there, or was damaged, is one of which nothing is known.
    pub(crate) fn read(path: &Path) -> Self {
        pod_file::read_or_default(path, "what probes had found out")
    }

    /// Writes it, if the pod's folder is there.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        pod_file::write(path, self, Outlives::Agent)
    }
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
