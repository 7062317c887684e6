//! `GetContainerEvents`: every transition, to every subscriber, in order.
//!
//! Publishing never waits. A subscriber that reads too slowly loses its place: its stream ends with an error that says
//! so, and it can open a new stream and list. Other subscribers are not affected.

use std::sync::Arc;

use rubelet_cri::v1;
use tokio::sync::broadcast;

use super::clock;
use super::registry::{Registry, Sandbox};
use super::view;

/// How many events a subscriber may lag behind. They are shared, so this bounds memory for all subscribers together.
const BACKLOG: usize = 8192;

/// The publisher.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<v1::ContainerEventResponse>>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG) }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<v1::ContainerEventResponse>> {
        self.sender.subscribe()
    }

    /// Publishes a transition of a container, or of a sandbox under its own id, with the current state of the pod.
    pub(crate) fn publish(
        &self,
        kind: v1::ContainerEventType,
        id: &str,
        sandbox: &Sandbox,
        registry: &Registry,
    ) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let containers = registry.containers_of(&sandbox.id);
        let event = v1::ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind as i32,
            created_at: clock::now(),
            pod_sandbox_status: Some(view::sandbox_status(sandbox)),
            containers_statuses: containers
                .iter()
                .map(|container| view::container_status(container))
                .collect(),
        };
        self.publish_raw(event);
    }

    pub(crate) fn publish_raw(&self, event: v1::ContainerEventResponse) {
        // Fails only if the last subscriber has just left.
        let _ = self.sender.send(Arc::new(event));
    }
}
