//! Reads a runtime over CRI.

mod known;

use std::sync::Arc;

use parking_lot::Mutex;
use rubelet_cri::{ContainerList, Error, ErrorKind, ListFilter, RuntimeClient, SandboxList};
use rubelet_model::{PodStatus, PodUid, RuntimePod};

use self::known::Known;
use crate::observe::{Call, Failure, Listing, Observe, ObserveError, Progress};

/// An observer over a CRI client. It only lists and asks for statuses: it changes nothing in the runtime.
///
/// Give it a client of its own, so that no other call stands in the way of its calls.
#[derive(Clone, Debug)]
pub struct CriObserver {
    client: RuntimeClient,
    /// The pods of the last list of all.
    known: Arc<Mutex<Known>>,
}

impl CriObserver {
    /// An observer over this client.
    #[must_use]
    pub fn new(client: RuntimeClient) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Both lists, and the connection that they came over.
    async fn lists(
        &self,
        filter: ListFilter<'_>,
        progress: &Progress,
    ) -> Result<(SandboxList, ContainerList, u64), ObserveError> {
        progress.calling(Call::ListPodSandbox, None);
        let sandboxes = self
            .client
            .list_sandboxes(&filter)
            .await
            .map_err(|error| failed(Call::ListPodSandbox, None, &error))?;
        progress.calling(Call::ListContainers, None);
        let containers = self
            .client
            .list_containers(&filter)
            .await
            .map_err(|error| failed(Call::ListContainers, None, &error))?;
        if sandboxes.epoch != containers.epoch {
            return Err(ObserveError {
                call: Call::ListContainers,
                target: None,
                failure: Failure::Reconnected,
                message: "the connection to the runtime was made anew between the two lists".into(),
            });
        }
        let epoch = sandboxes.epoch;
        Ok((sandboxes, containers, epoch))
    }
}

impl Observe for CriObserver {
    async fn list(&self, progress: &Progress) -> Result<Listing, ObserveError> {
        let (sandboxes, containers, epoch) = self.lists(ListFilter::All, progress).await?;
        let pods = self.known.lock().assemble(&sandboxes, &containers);
        Ok(Listing { pods, unreadable: sandboxes.unreadable + containers.unreadable, epoch })
    }

    async fn list_pod(&self, pod: &PodUid, progress: &Progress) -> Result<Listing, ObserveError> {
        let (sandboxes, containers, epoch) = self.lists(ListFilter::Pod(pod), progress).await?;
        let listing = rubelet_cri::assemble(&sandboxes, &containers);
        let pods = listing.pods.into_iter().map(Arc::new).collect();
        Ok(Listing { pods, unreadable: listing.unreadable, epoch })
    }

    async fn inspect(&self, pod: &RuntimePod, progress: &Progress) -> Result<PodStatus, ObserveError> {
        let mut sandboxes = Vec::with_capacity(pod.sandboxes.len());
        for listed in &pod.sandboxes {
            let id = listed.id.as_str();
            progress.calling(Call::PodSandboxStatus, Some(id));
            let status = self.client.sandbox_status(&listed.id).await;
            sandboxes.extend(status.map_err(|error| failed(Call::PodSandboxStatus, Some(id), &error))?);
        }
        let mut containers = Vec::with_capacity(pod.containers.len());
        for listed in &pod.containers {
            let id = listed.id.as_str();
            progress.calling(Call::ContainerStatus, Some(id));
            let status = self.client.container_status(&listed.id, &listed.sandbox).await;
            containers.extend(status.map_err(|error| failed(Call::ContainerStatus, Some(id), &error))?);
        }
        let mut status = PodStatus { pod: pod.pod.clone(), ips: Vec::new(), sandboxes, containers };
        if let Some(active) = status.active_sandbox() {
            status.ips = active.ips.clone();
        }
        Ok(status)
    }
}

fn failed(call: Call, target: Option<&str>, error: &Error) -> ObserveError {
    let failure = match error.kind() {
        ErrorKind::TooLarge => Failure::TooLarge,
        ErrorKind::Invalid(_) => Failure::Invalid,
        _ if error.is_timeout() => Failure::Deadline,
        _ if error.is_unavailable() => Failure::Unavailable,
        _ => Failure::Refused,
    };
    let message = error.explanation().to_string();
    ObserveError { call, target: target.map(Into::into), failure, message: message.into() }
}
