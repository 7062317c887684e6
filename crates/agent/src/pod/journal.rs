//! The events of one pod: everything that acts on the pod writes them, and its actor publishes them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::Clock;
use rubelet_model::{ContainerId, PodStatus};
use tokio::sync::Notify;

use crate::event::{Correlator, Note, PodEvent, Severity};

/// How long news may wait: most of what is done to a pod is over by then, and published as a whole.
const A_MOMENT: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Inner {
    events: Correlator,
    /// The names of the pod's containers, to be shown instead of their ids.
    names: BTreeMap<ContainerId, Arc<str>>,
    /// Whether something was noted that has not been read yet.
    has_news: bool,
}

/// The journal of one pod. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    inner: Arc<Mutex<Inner>>,
    noted: Arc<Notify>,
    clock: Clock,
}

impl Journal {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { inner: Arc::default(), noted: Arc::default(), clock }
    }

    /// Records a normal event of the pod, or of one of its containers.
    pub(crate) fn normal(
        &self,
        container: Option<&str>,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        self.note(Severity::Normal, container, reason.into(), message.into());
    }

    /// Records an event that somebody should look at.
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
        inner.has_news = true;
        drop(inner);
        self.noted.notify_one();
    }

    /// Replaces the known names of the pod's containers.
    pub(crate) fn learn_names(&self, status: &PodStatus) {
        let names = status.containers.iter().map(|one| (one.id.clone(), one.name.clone()));
        self.inner.lock().names = names.collect();
    }

    /// Adds the name of a new container.
    pub(crate) fn learn_name(&self, id: &ContainerId, name: &str) {
        self.inner.lock().names.insert(id.clone(), name.into());
    }

    /// Returns all remembered events, oldest first.
    pub(crate) fn told(&self) -> Vec<PodEvent> {
        let mut inner = self.inner.lock();
        inner.has_news = false;
        inner.events.told()
    }

    /// Waits until something has gone unread for a moment. Cancel-safe; only one task may wait at a time.
    pub(crate) async fn changed(&self) {
        loop {
            while !self.inner.lock().has_news {
                self.noted.notified().await;
            }
            tokio::time::sleep(A_MOMENT).await;
            if self.inner.lock().has_news {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ids_are_names_and_time_passes() {
        let journal = Journal::new(Clock::start());
        journal.learn_name(&"0123456789abcdef".into(), "web");
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

    #[tokio::test(start_paused = true)]
    async fn news_are_waited_for_until_somebody_asks() {
        let journal = Journal::new(Clock::start());
        let patience = Duration::from_secs(3600);
        assert!(tokio::time::timeout(patience, journal.changed()).await.is_err());
        let writer = journal.clone();
        let noted = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            writer.normal(None, "Pulling", "it comes");
        };
        let both = async { tokio::join!(journal.changed(), noted) };
        tokio::time::timeout(patience, both).await.expect("it is told");
        tokio::time::timeout(patience, journal.changed()).await.expect("until it is asked for");
        journal.told();
        assert!(tokio::time::timeout(patience, journal.changed()).await.is_err());
        writer.normal(None, "Pulled", "it came");
        let asked = async {
            tokio::time::sleep(A_MOMENT / 2).await;
            journal.told();
        };
        let both = async { tokio::join!(journal.changed(), asked) };
        assert!(tokio::time::timeout(patience, both).await.is_err(), "somebody has asked in time");
    }
}
