//! What happened to one pod, for whoever asks: anybody who acts on the pod writes, its actor publishes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pleg::Clock;
use rubelet_model::{ContainerId, PodStatus};

use crate::event::{Correlator, Note, PodEvent, Severity};

#[derive(Debug, Default)]
struct Inner {
    events: Correlator,
    /// What the containers of the pod are called: nobody wants to read their ids.
    names: BTreeMap<ContainerId, Arc<str>>,
}

/// The journal of one pod. Clones are the same journal.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { inner: Arc::default(), clock }
    }

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

    fn note(
        &self,
        severity: Severity,
        container: Option<&str>,
        reason: Cow<'static, str>,
        mut message: String,
    ) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        for (id, name) in &inner.names {
            if message.contains(id.as_str()) {
                message = message.replace(id.as_str(), name);
            }
        }
        let container = container.map(str::to_owned);
        inner.events.note(Note { severity, reason, message, container }, now);
    }

    /// These are the containers of the pod.
    pub(crate) fn knows(&self, status: &PodStatus) {
        let names = status.containers.iter().map(|one| (one.id.clone(), one.name.clone()));
        self.inner.lock().names = names.collect();
    }

    /// The pod has one container more.
    pub(crate) fn knows_one(&self, id: &ContainerId, name: &str) {
        self.inner.lock().names.insert(id.clone(), name.into());
    }

    /// Everything that was told and is remembered, oldest first.
    pub(crate) fn told(&self) -> Vec<PodEvent> {
        self.inner.lock().events.told()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ids_are_names_and_time_passes() {
        let journal = Journal::new(Clock::start());
        journal.knows_one(&"0123456789abcdef".into(), "web");
        journal.warning(Some("web"), "Failed", "Error: cannot start \"0123456789abcdef\"");
        let told = journal.told();
        assert_eq!(told[0].message, "Error: cannot start \"web\"");
        for number in 0..30 {
            journal.normal(None, "Pulled", number.to_string());
        }
        let count = |journal: &Journal| journal.told().iter().map(|one| one.count).sum::<u32>();
        assert_eq!(count(&journal), 25, "a burst, and no more");
        tokio::time::sleep(Duration::from_secs(301)).await;
        journal.normal(None, "Started", "after a while");
        assert_eq!(journal.told().len(), 12, "the failure, nine pulls, one for all the others, and the last");
    }
}
