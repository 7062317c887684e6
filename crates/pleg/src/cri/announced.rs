//! Converts the events of a runtime to announcements.

use std::sync::Arc;

use rubelet_cri::{Error, ErrorKind, EventStream, v1};
use rubelet_model::{ContainerId, PodRef, SandboxId, UnixNanos};

use crate::announce::{Announcement, Announcements, LifeStep, StreamError};
use crate::event::{Exit, Subject};

/// The event stream of a runtime.
#[derive(Debug)]
pub struct CriAnnouncements(pub(super) EventStream);

impl Announcements for CriAnnouncements {
    async fn next(&mut self) -> Option<Result<Announcement, StreamError>> {
        loop {
            match self.0.next().await? {
                Ok(event) => match announcement(event) {
                    Some(announcement) => return Some(Ok(announcement)),
                    None => tracing::debug!("the runtime announced something that cannot be understood"),
                },
                Err(error) => return Some(Err(stream_error(&error))),
            }
        }
    }
}

pub(super) fn stream_error(error: &Error) -> StreamError {
    match error.kind() {
        ErrorKind::Unimplemented => StreamError::Unsupported,
        _ => StreamError::Broken(error.explanation().to_string().into()),
    }
}

/// Converts an event. `None` without an id or with an unknown type; anything else may be missing from a hint.
#[must_use]
pub fn announcement(event: v1::ContainerEventResponse) -> Option<Announcement> {
    if event.container_id.is_empty() {
        return None;
    }
    let step = match v1::ContainerEventType::try_from(event.container_event_type).ok()? {
        v1::ContainerEventType::ContainerCreatedEvent => LifeStep::Created,
        v1::ContainerEventType::ContainerStartedEvent => LifeStep::Started,
        v1::ContainerEventType::ContainerStoppedEvent => LifeStep::Stopped,
        v1::ContainerEventType::ContainerDeletedEvent => LifeStep::Deleted,
    };
    let sandbox = event.pod_sandbox_status.unwrap_or_default();
    let metadata = sandbox.metadata.unwrap_or_default();
    let pod = (!metadata.uid.is_empty())
        .then(|| PodRef::new(metadata.uid.as_str(), metadata.namespace.as_str(), metadata.name.as_str()));
    let container = event.containers_statuses.into_iter().find(|status| status.id == event.container_id);
    let has_ended = |status: &v1::ContainerStatus| status.state == v1::ContainerState::ContainerExited as i32;
    let exited_at =
        container.as_ref().filter(|status| has_ended(status)).map(|status| UnixNanos(status.finished_at));
    let exit = container.as_ref().filter(|status| has_ended(status)).map(|status| Exit {
        code: status.exit_code,
        reason: status.reason.as_str().into(),
        oom_killed: status.reason == "OOMKilled",
    });
    let subject = if sandbox.id == event.container_id {
        Some(Subject::Sandbox { id: SandboxId::from(event.container_id.as_str()), attempt: metadata.attempt })
    } else {
        container.map(|status| {
            let metadata = status.metadata.unwrap_or_default();
            Subject::Container {
                id: ContainerId::from(event.container_id.as_str()),
                name: metadata.name.into(),
                attempt: metadata.attempt,
            }
        })
    };
    Some(Announcement {
        id: Arc::from(event.container_id),
        step,
        pod,
        subject,
        exit,
        exited_at,
        announced_at: Some(UnixNanos(event.created_at)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, kind: v1::ContainerEventType) -> v1::ContainerEventResponse {
        v1::ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            created_at: 7,
            ..Default::default()
        }
    }

    fn sandbox() -> v1::PodSandboxStatus {
        let metadata = v1::PodSandboxMetadata {
            name: "web".to_owned(),
            uid: "u1".to_owned(),
            namespace: "shop".to_owned(),
            attempt: 2,
        };
        v1::PodSandboxStatus { id: "s1".to_owned(), metadata: Some(metadata), ..Default::default() }
    }

    #[test]
    fn an_id_is_all_it_takes() {
        let bare = announcement(event("c1", v1::ContainerEventType::ContainerDeletedEvent)).unwrap();
        assert_eq!((&*bare.id, bare.step), ("c1", LifeStep::Deleted));
        assert_eq!((bare.pod, bare.subject, bare.exit), (None, None, None));
        assert_eq!(announcement(event("", v1::ContainerEventType::ContainerDeletedEvent)), None);
        let strange =
            v1::ContainerEventResponse { container_event_type: 9, ..event("c1", Default::default()) };
        assert_eq!(announcement(strange), None);
    }

    #[test]
    fn a_sandbox_is_announced_under_its_own_id() {
        let mut event = event("s1", v1::ContainerEventType::ContainerStartedEvent);
        event.pod_sandbox_status = Some(sandbox());
        let read = announcement(event).unwrap();
        assert_eq!(read.pod, Some(PodRef::new("u1", "shop", "web")));
        assert_eq!(read.subject, Some(Subject::Sandbox { id: "s1".into(), attempt: 2 }));
    }

    #[test]
    fn the_end_of_a_container_comes_along() {
        let mut event = event("c1", v1::ContainerEventType::ContainerStoppedEvent);
        event.pod_sandbox_status = Some(sandbox());
        let status = v1::ContainerStatus {
            id: "c1".to_owned(),
            metadata: Some(v1::ContainerMetadata { name: "main".to_owned(), attempt: 1 }),
            state: v1::ContainerState::ContainerExited.into(),
            exit_code: 3,
            finished_at: 11,
            reason: "Error".to_owned(),
            ..Default::default()
        };
        event.containers_statuses =
            vec![v1::ContainerStatus { id: "other".to_owned(), ..status.clone() }, status];
        let read = announcement(event).unwrap();
        assert_eq!(
            read.subject,
            Some(Subject::Container { id: "c1".into(), name: "main".into(), attempt: 1 })
        );
        assert_eq!(read.exit, Some(Exit { code: 3, reason: "Error".into(), oom_killed: false }));
        assert_eq!(read.exited_at, Some(UnixNanos(11)));
    }
}
