//! What a later agent must know of a pod before its source has spoken: whose it is, what it takes of the node, and how
//! long it may take to end.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus as ApiStatus};
use serde::{Deserialize, Serialize};

use super::is_terminal;
use crate::source::{SourceId, SourceKind};
use crate::status::Rejection;

/// What an agent before this one noted of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Footprint {
    /// Whose it was.
    pub(crate) source: Option<SourceId>,
    /// As much of it as takes room, and its grace.
    pub(crate) pod: Pod,
    /// How far it had come.
    pub(crate) standing: Standing,
}

/// How far a pod had come. Only one that is active takes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Active,
    /// Its node had no room for it. That says nothing about now.
    Refused,
    /// It has finished, well or badly, and never runs again.
    Finished,
}

impl Standing {
    pub(super) fn of(status: &ApiStatus) -> Self {
        match is_terminal(status) {
            false => Self::Active,
            true if Rejection::is_told_by(status) => Self::Refused,
            true => Self::Finished,
        }
    }
}

/// A footprint as it is on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Noted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<NotedSource>,
    /// Nothing in the files of an agent that did not note it.
    #[serde(default)]
    room: Option<PodSpec>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct NotedSource {
    kind: SourceKind,
    place: String,
}

impl Noted {
    pub(super) fn of(pod: &Pod, source: Option<&SourceId>) -> Self {
        let source =
            source.map(|source| NotedSource { kind: source.kind, place: source.place.as_ref().to_owned() });
        Self { source, room: pod.spec.as_ref().map(room) }
    }

    pub(super) fn read(self, standing: Standing) -> Option<Footprint> {
        let pod = Pod { spec: Some(self.room?), ..Pod::default() };
        let source = self.source.map(|source| SourceId::new(source.kind, source.place));
        Some(Footprint { source, pod, standing })
    }
}

/// As much of a spec as admission counts of others. Nothing else of it is kept: there may be secrets in it.
fn room(spec: &PodSpec) -> PodSpec {
    let part = |container: &Container| Container {
        name: container.name.clone(),
        ports: container.ports.clone(),
        resources: container.resources.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    };
    PodSpec {
        containers: spec.containers.iter().map(part).collect(),
        init_containers: spec.init_containers.as_ref().map(|all| all.iter().map(part).collect()),
        overhead: spec.overhead.clone(),
        resources: spec.resources.clone(),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        ..PodSpec::default()
    }
}
