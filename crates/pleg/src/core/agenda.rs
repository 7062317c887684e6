//! What is to be done later.

use std::collections::{BTreeMap, BTreeSet};

use rubelet_model::PodUid;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Task {
    /// Look at the pod.
    Look,
    /// Look at the pod, unless somebody has done so since then.
    LookSince(Stamp),
    /// Inspect the pod as it was listed.
    Inspect,
    /// Believe what is withheld of the pod, unless better information has arrived.
    Believe,
}

/// Tasks by when they are due.
///
/// A pod has at most one `Look`, the earliest; whoever wants another one later asks again once that one is done. An
/// `Inspect`, on the other hand, is kept for every moment that one was promised for.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "BTreeSet<(Stamp, PodUid, Task)>")]
pub(super) struct Agenda {
    tasks: BTreeSet<(Stamp, PodUid, Task)>,
    looks: BTreeMap<PodUid, Stamp>,
}

impl Agenda {
    pub(super) fn look(&mut self, pod: PodUid, at: Stamp) {
        match self.looks.get(&pod) {
            Some(earlier) if *earlier <= at => return,
            Some(later) => {
                self.tasks.remove(&(*later, pod.clone(), Task::Look));
            }
            None => {}
        }
        self.looks.insert(pod.clone(), at);
        self.tasks.insert((at, pod, Task::Look));
    }

    pub(super) fn look_since(&mut self, pod: PodUid, wanted: Stamp, at: Stamp) {
        self.tasks.insert((at, pod, Task::LookSince(wanted)));
    }

    pub(super) fn inspect(&mut self, pod: PodUid, at: Stamp) {
        self.tasks.insert((at, pod, Task::Inspect));
    }

    pub(super) fn believe(&mut self, pod: PodUid, at: Stamp) {
        self.tasks.insert((at, pod, Task::Believe));
    }

    pub(super) fn next(&self) -> Option<Stamp> {
        self.tasks.first().map(|(at, ..)| *at)
    }

    pub(super) fn take_due(&mut self, now: Stamp) -> Option<(PodUid, Task)> {
        if self.tasks.first()?.0 > now {
            return None;
        }
        let (_, pod, task) = self.tasks.pop_first()?;
        if task == Task::Look {
            self.looks.remove(&pod);
        }
        Some((pod, task))
    }
}

impl From<BTreeSet<(Stamp, PodUid, Task)>> for Agenda {
    fn from(tasks: BTreeSet<(Stamp, PodUid, Task)>) -> Self {
        let mut agenda = Self::default();
        for (at, pod, task) in tasks {
            match task {
                Task::Look => agenda.look(pod, at),
                Task::LookSince(wanted) => agenda.look_since(pod, wanted, at),
                Task::Inspect => agenda.inspect(pod, at),
                Task::Believe => agenda.believe(pod, at),
            }
        }
        agenda
    }
}

impl Serialize for Agenda {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.tasks.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Stamp {
        Stamp::from_nanos(nanos)
    }

    #[test]
    fn a_pod_waits_for_one_look_the_earliest() {
        let mut agenda = Agenda::default();
        for moment in [30, 50, 20, 40] {
            agenda.look("A".into(), at(moment));
        }
        agenda.look("B".into(), at(25));
        agenda.inspect("A".into(), at(30));
        agenda.inspect("A".into(), at(35));
        let due = |agenda: &mut Agenda| {
            let mut due = Vec::new();
            while let Some((pod, task)) = agenda.take_due(at(100)) {
                due.push((pod.to_string(), task));
            }
            due
        };
        let again: Agenda =
            serde_json::from_str(&serde_json::to_string(&agenda).expect("written")).expect("read");
        let expected = [("A", Task::Look), ("B", Task::Look), ("A", Task::Inspect), ("A", Task::Inspect)]
            .map(|(pod, task)| (pod.to_owned(), task));
        for mut agenda in [agenda, again] {
            assert_eq!(due(&mut agenda), expected);
            agenda.look("A".into(), at(200));
            assert_eq!(agenda.next(), Some(at(200)), "what was looked at may be looked at again");
        }
    }
}
