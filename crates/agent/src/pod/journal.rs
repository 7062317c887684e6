//! What happened to a pod, in the words of Kubernetes events: the last few things, equal ones counted.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_model::UnixNanos;
use serde::Serialize;

/// How many different things are remembered of a pod.
const MOST: usize = 32;

/// Whether somebody should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Severity {
    /// The API's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodHappening {
    /// Whether somebody should worry.
    pub severity: Severity,
    /// One word for it: `Pulled`, `BackOff`, `FailedMount`, …
    pub reason: Cow<'static, str>,
    /// What to read.
    pub message: String,
    /// The container that it happened to, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// How often.
    pub count: u64,
    /// When first.
    pub first_seen: UnixNanos,
    /// When last.
    pub last_seen: UnixNanos,
}

/// The journal of one pod. Clones are the same journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<VecDeque<PodHappening>>>);

impl Journal {
    /// Something normal happened to the pod, or to one of its containers.
    pub(crate) fn normal(
        &self,
        container: Option<&str>,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        self.note(Severity::Normal, container, reason.into(), message.into());
    }

    /// Something happened that somebody should look at.
    pub(crate) fn warning(
        &self,
        container: Option<&str>,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        self.note(Severity::Warning, container, reason.into(), message.into());
    }

    fn note(&self, severity: Severity, container: Option<&str>, reason: Cow<'static, str>, message: String) {
        let now = pleg::clock::wall_clock();
        let mut happenings = self.0.lock();
        let is_same = |known: &PodHappening| {
            known.reason == reason && known.message == message && known.container.as_deref() == container
        };
        let (first_seen, count) = match happenings.iter().position(is_same) {
            Some(place) => {
                let known = happenings.remove(place);
                known.map_or((now, 0), |known| (known.first_seen, known.count))
            }
            None => (now, 0),
        };
        if happenings.len() >= MOST {
            happenings.pop_front();
        }
        let container = container.map(str::to_owned);
        let count = count + 1;
        happenings.push_back(PodHappening {
            severity,
            reason,
            message,
            container,
            count,
            first_seen,
            last_seen: now,
        });
    }

    /// Everything that is remembered, oldest first.
    pub(crate) fn all(&self) -> Vec<PodHappening> {
        self.0.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_are_counted_and_the_oldest_are_forgotten() {
        let journal = Journal::default();
        journal.warning(Some("c"), "BackOff", "again");
        journal.normal(None, "Pulled", "here");
        journal.warning(Some("c"), "BackOff", "again");
        let all = journal.all();
        assert_eq!(
            all.iter().map(|one| (&*one.reason, one.count)).collect::<Vec<_>>(),
            [("Pulled", 1), ("BackOff", 2)]
        );
        for number in 0..100 {
            journal.normal(None, "Started", number.to_string());
        }
        let all = journal.all();
        assert_eq!((all.len(), all[MOST - 1].message.as_str()), (MOST, "99"));
    }
}
