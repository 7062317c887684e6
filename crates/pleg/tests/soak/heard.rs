//! What a subscriber makes of all that it hears.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use pleg::{CacheReader, EventKind, Exit, Handle, PodEvent};
use rubelet_model::{ContainerState, PodStatus, PodUid, SandboxState};

/// The last thing that was told of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Runs,
    Ended,
}

/// Everything that was heard, folded over the empty node.
#[derive(Default)]
pub(crate) struct Heard {
    things: BTreeMap<String, (PodUid, Told)>,
    /// Every fact about something, in order.
    facts: BTreeMap<String, Vec<(EventKind, Option<Exit>)>>,
    /// Pods of which some events were merged: not everything was heard one by one.
    merged: BTreeSet<PodUid>,
}

impl Heard {
    /// Listens for as long as the PLEG lives.
    pub(crate) fn by_subscribing(handle: &Handle) -> Arc<Mutex<Self>> {
        let heard = Arc::new(Mutex::new(Self::default()));
        let (cache, mut events) = (handle.cache(), handle.subscribe());
        tokio::spawn({
            let heard = heard.clone();
            async move {
                while let Some(event) = events.next().await {
                    heard.lock().hear(&event, &cache);
                }
            }
        });
        heard
    }

    fn hear(&mut self, event: &PodEvent, cache: &CacheReader) {
        if event.merged > 1 {
            self.merged.insert(event.pod.uid.clone());
            self.read_again(&event.pod.uid, cache);
            return;
        }
        let Some(subject) = &event.subject else { return };
        let id = subject.id().to_owned();
        match event.kind {
            EventKind::ContainerStarted => {
                self.things.insert(id.clone(), (event.pod.uid.clone(), Told::Runs));
            }
            EventKind::ContainerDied => {
                self.things.insert(id.clone(), (event.pod.uid.clone(), Told::Ended));
            }
            EventKind::ContainerRemoved => {
                self.things.remove(&id);
            }
            EventKind::PodSync | EventKind::ContainerChanged => return,
        }
        self.facts.entry(id).or_default().push((event.kind, event.exit.clone()));
    }

    /// Whoever gets events merged into one reads what has become of the pod.
    fn read_again(&mut self, pod: &PodUid, cache: &CacheReader) {
        self.things.retain(|_, (of, _)| of != pod);
        if let Ok(status) = cache.get(pod) {
            for (id, told) in what_can_be_told(&status) {
                self.things.extend(told.map(|told| (id, (pod.clone(), told))));
            }
        }
    }

    /// Whether events of this pod were merged.
    pub(crate) fn is_merged(&self, pod: &PodUid) -> bool {
        self.merged.contains(pod)
    }

    /// How something ended, as often as that was told.
    pub(crate) fn ends(&self, id: &str) -> Vec<Option<Exit>> {
        let facts = self.facts.get(id).into_iter().flatten();
        facts.filter(|(kind, _)| *kind == EventKind::ContainerDied).map(|(_, exit)| exit.clone()).collect()
    }

    /// That each fact was told once, in the order of life. Something lives again only if it `may_return`.
    pub(crate) fn assert_facts_are_told_once_and_in_order(&self, may_return: bool, context: &str) {
        for (id, facts) in &self.facts {
            let kinds: Vec<EventKind> = facts.iter().map(|(kind, _)| *kind).collect();
            let is_rising = |life: &[EventKind]| life.windows(2).all(|pair| pair[0] < pair[1]);
            let lives = kinds.split_inclusive(|kind| may_return && *kind == EventKind::ContainerRemoved);
            assert!(lives.into_iter().all(is_rising), "{context}: of {id} was told {kinds:?}");
        }
    }

    /// That what was told is what is there.
    pub(crate) fn assert_is(&self, truth: &[PodStatus], context: &str) {
        let there: BTreeMap<String, Option<Told>> = truth.iter().flat_map(what_can_be_told).collect();
        for (id, (pod, told)) in &self.things {
            let is = there.get(id);
            assert!(is.is_some(), "{context}: {id} of {pod} is gone, and its removal was not told");
            assert!(is.is_none_or(|is| is.is_none_or(|is| is == *told)), "{context}: {id} is not {told:?}");
        }
        for (id, is) in &there {
            if let Some(is) = is {
                let told = self.things.get(id).map(|(_, told)| *told);
                assert_eq!(told, Some(*is), "{context}: what was told of {id}");
            }
        }
    }
}

/// What must have been told of everything in a pod: nothing certain of what is in a state that tells nothing.
fn what_can_be_told(status: &PodStatus) -> Vec<(String, Option<Told>)> {
    let sandboxes = status.sandboxes.iter().map(|sandbox| {
        let told = match sandbox.state {
            SandboxState::Ready => Some(Told::Runs),
            SandboxState::NotReady => Some(Told::Ended),
            SandboxState::Unknown => None,
        };
        (sandbox.id.as_str().to_owned(), told)
    });
    let containers = status.containers.iter().map(|container| {
        let told = match container.state {
            ContainerState::Running => Some(Told::Runs),
            ContainerState::Exited => Some(Told::Ended),
            ContainerState::Created | ContainerState::Unknown => None,
        };
        (container.id.as_str().to_owned(), told)
    });
    sandboxes.chain(containers).collect()
}
