//! Container events of the simulated runtime: which change sends which event, and with what content.

use rubelet_cri::v1;
use rubelet_model::{ContainerId, PodUid, SandboxId};

use super::super::profile::{EventContainers, EventSupport};
use super::World;
use super::kubelet::POD_UID_LABEL;

/// Go's zero time in nanoseconds since 1970, after an overflow.
pub(super) const YEAR_1754: i64 = -6_795_364_578_871_345_152;

/// The four types of container events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// `CONTAINER_CREATED_EVENT`
    Created,
    /// `CONTAINER_STARTED_EVENT`
    Started,
    /// `CONTAINER_STOPPED_EVENT`
    Stopped,
    /// `CONTAINER_DELETED_EVENT`
    Deleted,
}

impl From<EventKind> for v1::ContainerEventType {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::Created => Self::ContainerCreatedEvent,
            EventKind::Started => Self::ContainerStartedEvent,
            EventKind::Stopped => Self::ContainerStoppedEvent,
            EventKind::Deleted => Self::ContainerDeletedEvent,
        }
    }
}

/// An event on its way to the readers of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct CriEvent {
    /// Its number in this world, from 1 without gaps.
    pub number: u64,
    /// Its type.
    pub kind: EventKind,
    /// The pod it is about, even if the message does not say so.
    pub pod: PodUid,
    /// The sandbox it is about, or the sandbox of the container it is about.
    pub sandbox: SandboxId,
    /// The container it is about; `None` if it is about the sandbox itself.
    pub container: Option<ContainerId>,
    /// The message as sent.
    pub message: v1::ContainerEventResponse,
}

impl World {
    /// Announces something about a container of this sandbox, with the statuses as of now.
    pub(super) fn announce_container(&mut self, kind: EventKind, id: &ContainerId, sandbox: &SandboxId) {
        self.announce(kind, sandbox, Some(id.clone()), |_| ());
    }

    /// Announces something about a sandbox; `adapt` may add what this runtime gets wrong.
    pub(super) fn announce_sandbox(
        &mut self,
        kind: EventKind,
        id: &SandboxId,
        adapt: impl FnOnce(&mut v1::ContainerEventResponse),
    ) {
        self.announce(kind, id, None, adapt);
    }

    /// Returns whether no events are produced at present.
    pub(super) fn is_mute(&self) -> bool {
        self.down || !matches!(self.quirks.events, EventSupport::Stream(_))
    }

    fn announce(
        &mut self,
        kind: EventKind,
        sandbox: &SandboxId,
        container: Option<ContainerId>,
        adapt: impl FnOnce(&mut v1::ContainerEventResponse),
    ) {
        if self.quiet || self.is_mute() {
            return;
        }
        let about = container.as_ref().map_or(sandbox.as_str(), ContainerId::as_str);
        let mut message = v1::ContainerEventResponse {
            container_id: about.to_owned(),
            container_event_type: v1::ContainerEventType::from(kind).into(),
            created_at: self.clock,
            pod_sandbox_status: Some(self.sandbox_status(&self.sandboxes[sandbox])),
            containers_statuses: self.statuses_for_event(sandbox),
        };
        adapt(&mut message);
        self.events_made += 1;
        self.events.push(CriEvent {
            number: self.events_made,
            kind,
            pod: self.sandboxes[sandbox].pod.clone(),
            sandbox: sandbox.clone(),
            container,
            message,
        });
    }

    fn statuses_for_event(&self, sandbox: &SandboxId) -> Vec<v1::ContainerStatus> {
        match self.quirks.event_containers {
            EventContainers::OfSandbox => {
                self.containers_of(sandbox).map(|container| self.container_status(container)).collect()
            }
            EventContainers::OfPodLabel => {
                let labels = &self.sandboxes[sandbox].config.labels;
                let Some(uid) = labels.get(POD_UID_LABEL) else { return Vec::new() };
                let selector = [(POD_UID_LABEL.to_owned(), uid.clone())].into();
                let ids = self.container_labels.narrow(&selector).into_iter().flatten();
                ids.map(|id| self.container_status(&self.containers[id])).collect()
            }
        }
    }
}
