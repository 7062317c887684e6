//! Observes a runtime over CRI.

mod announced;
mod known;
mod texts;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::Either;
use futures_util::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use rubelet_cri::{ContainerList, Error, ErrorKind, ListFilter, RuntimeClient, SandboxList};
use rubelet_model::{
    ContainerStatus, ListedContainer, PodStatus, PodUid, RuntimePod, SandboxId, SandboxStatus,
};

pub use self::announced::{CriAnnouncements, announcement};
use self::known::Known;
use self::texts::Texts;
use crate::announce::StreamError;
use crate::observe::{Call, Failure, Listing, Observe, ObserveError};
use crate::progress::Progress;

/// How many status calls, for sandboxes and containers, are made at once for one pod. A pod usually has a sandbox and a
/// few containers, so it takes no longer to inspect than one call; a pod with hundreds of dead containers must not
/// flood the runtime.
const CALLS_PER_POD: usize = 4;

/// Observes a runtime with a CRI client. It only makes list and status calls, so it changes nothing in the runtime.
///
/// Give it a client of its own, so that its calls do not have to wait for others.
#[derive(Clone, Debug)]
pub struct CriObserver {
    client: RuntimeClient,
    full: Arc<Mutex<FullLists>>,
    /// Interned names of images and runtime handlers, which many pods have in common.
    texts: Arc<Mutex<Texts>>,
}

/// What one full list leaves to the next.
#[derive(Debug, Default)]
struct FullLists {
    known: Known,
    /// Memory for the next lists to reuse.
    spare: (SandboxList, ContainerList),
}

impl CriObserver {
    /// Creates an observer that uses this client.
    #[must_use]
    pub fn new(client: RuntimeClient) -> Self {
        Self { client, full: Arc::default(), texts: Arc::default() }
    }

    /// Reads both lists, over one connection.
    async fn lists(
        &self,
        filter: ListFilter<'_>,
        spare: (SandboxList, ContainerList),
        progress: &Progress,
    ) -> Result<(SandboxList, ContainerList), ObserveError> {
        let mut sandboxes = self.sandboxes(filter, spare.0, progress).await?;
        let containers = {
            let _calling = progress.calling(Call::ListContainers, None);
            let answer = self.client.list_containers_into(spare.1, &filter).await;
            answer.map_err(|error| failed(Call::ListContainers, None, &error))?
        };
        let mut is_one_connection = sandboxes.epoch == containers.epoch;
        if let Some(missing) = unlisted_sandboxes(&sandboxes, &containers) {
            // They were created between the two lists, and nothing else says to which pods those containers belong.
            let later = self.sandboxes(filter, SandboxList::default(), progress).await?;
            is_one_connection &= later.epoch == containers.epoch;
            for entry in later.iter().filter(|entry| missing.contains(entry.id)) {
                sandboxes.push(entry);
            }
        }
        if !is_one_connection {
            return Err(ObserveError {
                call: Call::ListContainers,
                target: None,
                failure: Failure::Reconnected,
                message: "reconnected to the runtime between the two lists".into(),
            });
        }
        Ok((sandboxes, containers))
    }

    async fn sandboxes(
        &self,
        filter: ListFilter<'_>,
        spare: SandboxList,
        progress: &Progress,
    ) -> Result<SandboxList, ObserveError> {
        let _calling = progress.calling(Call::ListPodSandbox, None);
        let answer = self.client.list_sandboxes_into(spare, &filter).await;
        answer.map_err(|error| failed(Call::ListPodSandbox, None, &error))
    }

    async fn sandbox(
        &self,
        id: &SandboxId,
        progress: &Progress,
    ) -> Result<Option<SandboxStatus>, ObserveError> {
        let _calling = progress.calling(Call::PodSandboxStatus, Some(id.as_str()));
        let answer = self.client.sandbox_status(id).await;
        let mut status = answer.map_err(|error| failed(Call::PodSandboxStatus, Some(id.as_str()), &error))?;
        if let Some(status) = &mut status {
            self.texts.lock().share(&mut status.runtime_handler);
        }
        Ok(status)
    }

    async fn container(
        &self,
        listed: &ListedContainer,
        progress: &Progress,
    ) -> Result<Option<ContainerStatus>, ObserveError> {
        let id = listed.id.as_str();
        let _calling = progress.calling(Call::ContainerStatus, Some(id));
        let answer = self.client.container_status(&listed.id, &listed.sandbox).await;
        let mut status = answer.map_err(|error| failed(Call::ContainerStatus, Some(id), &error))?;
        if let Some(status) = &mut status {
            if status.name == listed.name {
                status.name = listed.name.clone();
            }
            let mut texts = self.texts.lock();
            texts.share(&mut status.image);
            texts.share(&mut status.image_ref);
        }
        Ok(status)
    }
}

/// The sandboxes that containers name but that are not listed, and without which the pods of these containers are
/// unknown. There are hardly ever any.
fn unlisted_sandboxes(sandboxes: &SandboxList, containers: &ContainerList) -> Option<HashSet<String>> {
    let nameless = || containers.iter().filter(|entry| entry.pod_uid.is_empty() && !entry.sandbox.is_empty());
    nameless().next()?;
    let listed: HashSet<&str> = sandboxes.iter().map(|entry| entry.id).collect();
    let missing: HashSet<String> =
        nameless().map(|entry| entry.sandbox).filter(|id| !listed.contains(id)).map(str::to_owned).collect();
    (!missing.is_empty()).then_some(missing)
}

impl Observe for CriObserver {
    type Announcements = CriAnnouncements;

    async fn announcements(&self) -> Result<CriAnnouncements, StreamError> {
        let events = self.client.get_container_events().await;
        events.map(CriAnnouncements).map_err(|error| announced::stream_error(&error))
    }

    async fn list(&self, progress: &Progress) -> Result<Listing, ObserveError> {
        let spare = std::mem::take(&mut self.full.lock().spare);
        let (sandboxes, containers) = self.lists(ListFilter::All, spare, progress).await?;
        let mut full = self.full.lock();
        let listing = full.known.assemble(&sandboxes, &containers);
        full.spare = (sandboxes, containers);
        Ok(listing)
    }

    async fn list_pod(&self, pod: &PodUid, progress: &Progress) -> Result<Listing, ObserveError> {
        let (sandboxes, containers) = self.lists(ListFilter::Pod(pod), Default::default(), progress).await?;
        let listing = rubelet_cri::assemble(&sandboxes, &containers);
        let pods = listing.pods.into_iter().map(Arc::new).collect();
        Ok(Listing { pods, unreadable: listing.unreadable, epoch: containers.epoch })
    }

    async fn inspect(&self, pod: &RuntimePod, progress: &Progress) -> Result<PodStatus, ObserveError> {
        let sandboxes = pod.sandboxes.iter().map(|listed| {
            let status = self.sandbox(&listed.id, progress);
            Either::Left(status.map_ok(|status| status.map(Part::Sandbox)))
        });
        let containers = pod.containers.iter().map(|listed| {
            let status = self.container(listed, progress);
            Either::Right(status.map_ok(|status| status.map(Part::Container)))
        });
        let calls: Vec<_> = sandboxes.chain(containers).collect();
        let mut parts = pin!(stream::iter(calls).buffered(CALLS_PER_POD));
        let mut status = PodStatus {
            pod: pod.pod.clone(),
            ips: Vec::new(),
            sandboxes: Vec::with_capacity(pod.sandboxes.len()),
            containers: Vec::with_capacity(pod.containers.len()),
        };
        while let Some(part) = parts.try_next().await? {
            match part {
                Some(Part::Sandbox(sandbox)) => status.sandboxes.push(sandbox),
                Some(Part::Container(container)) => status.containers.push(container),
                // It is gone.
                None => {}
            }
        }
        if let Some(active) = status.active_sandbox() {
            status.ips = active.ips.clone();
        }
        Ok(status)
    }
}

/// The answer to one status call.
enum Part {
    Sandbox(SandboxStatus),
    Container(ContainerStatus),
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
