//! What a later agent must know about a pod before its source has been read: which source it belongs to, which
//! resources of the node it takes, and how long it may take to end.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus as ApiStatus};
use serde::{Deserialize, Serialize};

use super::is_terminal;
use crate::source::{SourceId, SourceKind};
use crate::status::Rejection;

/// What an earlier agent noted about a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Footprint {
    /// The source that it belonged to.
    pub(crate) source: Option<SourceId>,
    /// The parts of it that take resources, and its grace period.
    pub(crate) pod: Pod,
    /// How far it had got.
    pub(crate) standing: Standing,
}

/// How far a pod had got. Only an active one takes resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Active,
    /// Its node had no room for it. That says nothing about the present.
    Refused,
    /// It has finished, successfully or not, and never runs again.
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

/// A footprint as stored on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Noted {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<NotedSource>,
    /// `None` in the files of an agent that did not note it.
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

/// Returns the parts of a spec that admission counts for other pods. Nothing else is kept: it may contain secrets.
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
