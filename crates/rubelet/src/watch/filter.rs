//! The selection of events to show.

use pleg::{EventKind, PodEvent};
use rubelet_model::PodRef;

/// A kind of event, by the kubelet's name or a short one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KindFilter {
    /// A container started, or a sandbox became ready
    #[value(name = "ContainerStarted", alias = "started")]
    Started,
    /// A container exited, or a sandbox is no longer ready
    #[value(name = "ContainerDied", alias = "died")]
    Died,
    /// A container or sandbox was removed
    #[value(name = "ContainerRemoved", alias = "removed")]
    Removed,
    /// Something else about the pod changed
    #[value(name = "PodSync", alias = "sync")]
    Sync,
}

impl KindFilter {
    const fn kind(self) -> EventKind {
        match self {
            Self::Started => EventKind::ContainerStarted,
            Self::Died => EventKind::ContainerDied,
            Self::Removed => EventKind::ContainerRemoved,
            Self::Sync => EventKind::PodSync,
        }
    }
}

/// What to show. An empty list selects everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) namespaces: Vec<String>,
    pub(crate) pods: Vec<String>,
    pub(crate) kinds: Vec<KindFilter>,
}

impl Filter {
    /// Whether a pod is shown at all.
    pub(crate) fn shows_pod(&self, pod: &PodRef) -> bool {
        let is_among = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
        is_among(&self.namespaces, &pod.namespace) && is_among(&self.pods, &pod.name)
    }

    /// Whether an event is shown. An event that stands for several may include any kind, so its kind does not matter.
    pub(crate) fn shows(&self, event: &PodEvent) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.kind() == event.kind);
        self.shows_pod(&event.pod) && (is_kind || event.merged > 1)
    }
}

#[cfg(test)]
mod tests {
    use pleg::Trigger;
    use rubelet_model::UnixNanos;

    use super::*;

    fn event(namespace: &str, pod: &str, kind: EventKind, merged: u64) -> PodEvent {
        PodEvent {
            seq: 1,
            kind,
            pod: PodRef::new("uid", namespace, pod),
            subject: None,
            exit: None,
            happened_at: None,
            seen_at: UnixNanos(0),
            trigger: Trigger::Relist,
            merged,
        }
    }

    #[test]
    fn every_filter_must_let_an_event_through() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let filter = |namespaces: &[&str], pods: &[&str], kinds: &[KindFilter]| Filter {
            namespaces: texts(namespaces),
            pods: texts(pods),
            kinds: kinds.to_vec(),
        };
        let died = event("web", "nginx", EventKind::ContainerDied, 1);
        let rows = [
            (filter(&[], &[], &[]), true),
            (filter(&["web", "db"], &[], &[]), true),
            (filter(&["db"], &[], &[]), false),
            (filter(&[], &["nginx"], &[]), true),
            (filter(&[], &["ngin"], &[]), false),
            (filter(&[], &[], &[KindFilter::Died]), true),
            (filter(&[], &[], &[KindFilter::Started, KindFilter::Removed]), false),
            (filter(&["web"], &["nginx"], &[KindFilter::Died]), true),
            (filter(&["web"], &["other"], &[KindFilter::Died]), false),
        ];
        for (filter, expected) in rows {
            assert_eq!(filter.shows(&died), expected, "{filter:?}");
        }
    }

    #[test]
    fn an_event_that_stands_for_several_is_shown_whatever_the_kind() {
        let filter = Filter { kinds: vec![KindFilter::Died], ..Filter::default() };
        assert!(filter.shows(&event("web", "nginx", EventKind::PodSync, 9)));
        assert!(!filter.shows(&event("web", "nginx", EventKind::PodSync, 1)));
    }
}
