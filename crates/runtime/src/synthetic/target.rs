//! The target of a call.

use std::fmt;

use rubelet_cri::v1;
use rubelet_model::{ContainerId, PodUid, SandboxId};

use super::world::{POD_UID_LABEL, World};

/// What a call, an entry of a list, or an event is about, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Target {
    /// The pod.
    pub pod: Option<PodUid>,
    /// The sandbox.
    pub sandbox: Option<SandboxId>,
    /// The container.
    pub container: Option<ContainerId>,
}

impl Target {
    /// The node as a whole.
    pub(crate) const NODE: Self = Self { pod: None, sandbox: None, container: None };

    /// The container with this id or short id; an unknown id is kept as it is.
    pub(crate) fn container(world: &World, id: &str) -> Self {
        match world.find_container(id) {
            Ok(container) => Self {
                container: Some(container.id().clone()),
                ..Self::sandbox(world, container.sandbox().as_str())
            },
            Err(_) => Self { container: Some(id.into()), ..Self::NODE },
        }
    }

    /// The sandbox with this id or short id; an unknown id is kept as it is.
    pub(crate) fn sandbox(world: &World, id: &str) -> Self {
        match world.find_sandbox(id) {
            Ok(sandbox) => Self {
                pod: Some(sandbox.pod().clone()),
                sandbox: Some(sandbox.id().clone()),
                container: None,
            },
            Err(_) => Self { sandbox: Some(id.into()), ..Self::NODE },
        }
    }

    /// What a filter restricts a list of sandboxes to.
    pub(crate) fn sandbox_filter(world: &World, filter: Option<&v1::PodSandboxFilter>) -> Self {
        let Some(filter) = filter else { return Self::NODE };
        if !filter.id.is_empty() {
            return Self::sandbox(world, &filter.id);
        }
        Self { pod: filter.label_selector.get(POD_UID_LABEL).map(|uid| uid.as_str().into()), ..Self::NODE }
    }

    /// What a filter restricts a list of containers to.
    pub(crate) fn container_filter(world: &World, filter: Option<&v1::ContainerFilter>) -> Self {
        let Some(filter) = filter else { return Self::NODE };
        if !filter.id.is_empty() {
            return Self::container(world, &filter.id);
        }
        if !filter.pod_sandbox_id.is_empty() {
            return Self::sandbox(world, &filter.pod_sandbox_id);
        }
        Self { pod: filter.label_selector.get(POD_UID_LABEL).map(|uid| uid.as_str().into()), ..Self::NODE }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.container, &self.sandbox, &self.pod) {
            (Some(container), _, _) => write!(f, "container {container}"),
            (None, Some(sandbox), _) => write!(f, "sandbox {sandbox}"),
            (None, None, Some(pod)) => write!(f, "pod {pod}"),
            (None, None, None) => f.write_str("node"),
        }
    }
}
