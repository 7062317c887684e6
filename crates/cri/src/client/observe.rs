//! The calls that a PLEG makes all the time: lists, and the status of a single sandbox or container.

use parking_lot::Mutex;
use rubelet_model::{ContainerId, ContainerStatus, SandboxId, SandboxStatus};

use super::{NO_TIME, RuntimeClient};
use crate::lists::{self, Listed};
use crate::{
    ContainerList, Error, ErrorKind, ListFilter, Operation, PodListing, SandboxList, assemble, convert,
};

impl RuntimeClient {
    /// Returns the sandboxes that match the filter, with what a list view needs, however many there are. (The one
    /// exception: the sandboxes of a single state do not fit into one answer, and the runtime has no streamed lists.)
    pub async fn list_sandboxes(&self, filter: &ListFilter<'_>) -> Result<SandboxList, Error> {
        self.list_sandboxes_into(SandboxList::default(), filter).await
    }

    /// Like [`list_sandboxes`](Self::list_sandboxes), but reuses the memory of `spare`.
    pub async fn list_sandboxes_into(
        &self,
        spare: SandboxList,
        filter: &ListFilter<'_>,
    ) -> Result<SandboxList, Error> {
        let (mut list, epoch) = self.list_lean(Operation::ListPodSandbox, spare, *filter).await?;
        list.epoch = epoch;
        Ok(list)
    }

    /// Returns the containers that match the filter, with what a list view needs, however many there are. (The one
    /// exception: the containers of a single state do not fit into one answer, and the runtime has no streamed lists.)
    pub async fn list_containers(&self, filter: &ListFilter<'_>) -> Result<ContainerList, Error> {
        self.list_containers_into(ContainerList::default(), filter).await
    }

    /// Like [`list_containers`](Self::list_containers), but reuses the memory of `spare`.
    pub async fn list_containers_into(
        &self,
        spare: ContainerList,
        filter: &ListFilter<'_>,
    ) -> Result<ContainerList, Error> {
        let (mut list, epoch) = self.list_lean(Operation::ListContainers, spare, *filter).await?;
        list.epoch = epoch;
        Ok(list)
    }

    /// Returns the pods that match the filter: lists the [sandboxes](Self::list_sandboxes), then the
    /// [containers](Self::list_containers), and [assembles](assemble) them.
    pub async fn list_pods(&self, filter: &ListFilter<'_>) -> Result<PodListing, Error> {
        let sandboxes = self.list_sandboxes(filter).await?;
        let containers = self.list_containers(filter).await?;
        Ok(assemble(&sandboxes, &containers))
    }

    async fn list_lean<L: Listed>(
        &self,
        operation: Operation,
        spare: L,
        filter: ListFilter<'_>,
    ) -> Result<(L, u64), Error> {
        // There may be two attempts; the first one takes the memory.
        let spare = Mutex::new(spare);
        self.0
            .perform(operation, NO_TIME, |attempt| {
                let list = std::mem::take(&mut *spare.lock());
                async move {
                    let list = lists::read(&attempt, list, filter).await?;
                    Ok((list, attempt.connection().epoch()))
                }
            })
            .await
    }

    /// Returns the status of a sandbox, or `None` if the runtime does not know it.
    ///
    /// An answer without a status, or about another sandbox, is an error of kind [`ErrorKind::Invalid`]. Anything else
    /// may be missing from the answer: every sandbox that a list shows can be inspected, however it was created.
    pub async fn sandbox_status(&self, id: &SandboxId) -> Result<Option<SandboxStatus>, Error> {
        let Some(answer) = found(self.describe_sandbox(id, false).await)? else { return Ok(None) };
        convert::sandbox_status(id, answer)
            .map(Some)
            .map_err(|field| self.bad(Operation::PodSandboxStatus, field))
    }

    /// Returns the status of a container of `sandbox`, or `None` if the runtime does not know the container.
    ///
    /// As with sandboxes, the answer must have only the status and its id.
    pub async fn container_status(
        &self,
        id: &ContainerId,
        sandbox: &SandboxId,
    ) -> Result<Option<ContainerStatus>, Error> {
        let Some(answer) = found(self.describe_container(id, false).await)? else { return Ok(None) };
        convert::container_status(id, sandbox, answer)
            .map(Some)
            .map_err(|field| self.bad(Operation::ContainerStatus, field))
    }

    fn bad(&self, operation: Operation, field: &'static str) -> Error {
        Error::new(operation, ErrorKind::Invalid(field), self.endpoint(), "missing, or of something else")
    }
}

/// Distinguishes "not found" from every other error.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
