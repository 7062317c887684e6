//! What a PLEG asks, again and again: lists, and the status of one thing.

use parking_lot::Mutex;
use rubelet_model::{ContainerId, ContainerStatus, SandboxId, SandboxStatus};

use super::{NO_TIME, RuntimeClient};
use crate::lists::{self, Listed};
use crate::{
    ContainerList, Error, ErrorKind, ListFilter, Operation, PodListing, SandboxList, assemble, convert,
};

impl RuntimeClient {
    /// The sandboxes that the filter lets through, as a list view needs them. Any number of them.
    pub async fn list_sandboxes(&self, filter: &ListFilter<'_>) -> Result<SandboxList, Error> {
        self.list_sandboxes_into(SandboxList::default(), filter).await
    }

    /// As [`list_sandboxes`](Self::list_sandboxes), in the memory of a list that is no longer needed.
    pub async fn list_sandboxes_into(
        &self,
        spare: SandboxList,
        filter: &ListFilter<'_>,
    ) -> Result<SandboxList, Error> {
        let (mut list, epoch) = self.list_lean(Operation::ListPodSandbox, spare, *filter).await?;
        list.epoch = epoch;
        Ok(list)
    }

    /// The containers that the filter lets through, as a list view needs them. Any number of them, unless those of
    /// one state alone are too large for an answer and the runtime has no streams.
    pub async fn list_containers(&self, filter: &ListFilter<'_>) -> Result<ContainerList, Error> {
        self.list_containers_into(ContainerList::default(), filter).await
    }

    /// As [`list_containers`](Self::list_containers), in the memory of a list that is no longer needed.
    pub async fn list_containers_into(
        &self,
        spare: ContainerList,
        filter: &ListFilter<'_>,
    ) -> Result<ContainerList, Error> {
        let (mut list, epoch) = self.list_lean(Operation::ListContainers, spare, *filter).await?;
        list.epoch = epoch;
        Ok(list)
    }

    /// The pods that the filter lets through: [sandboxes](Self::list_sandboxes) first, then
    /// [containers](Self::list_containers), [put together](assemble).
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
        // Of two attempts, the first takes it.
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

    /// How a sandbox is; `None` if the runtime does not know it.
    ///
    /// An answer without a status, or about another sandbox, is an error of kind [`ErrorKind::Invalid`]. Anything
    /// else may be missing from it: a sandbox that a list shows can be inspected, however it was made.
    pub async fn sandbox_status(&self, id: &SandboxId) -> Result<Option<SandboxStatus>, Error> {
        let Some(answer) = found(self.describe_sandbox(id, false).await)? else { return Ok(None) };
        convert::sandbox_status(id, answer)
            .map(Some)
            .map_err(|field| self.bad(Operation::PodSandboxStatus, field))
    }

    /// How a container of `sandbox` is; `None` if the runtime does not know it.
    ///
    /// As with sandboxes, only the status and its id are required of the answer.
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

/// Tells what is not there from what went wrong.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
