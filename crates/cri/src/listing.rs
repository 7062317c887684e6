//! What the list calls tell, entry by entry, and how entries become pods.

use std::sync::Arc;

use rubelet_model::{ContainerId, ContainerState, PodUid, RuntimePod, SandboxId, SandboxState, UnixNanos};

/// Which sandboxes or containers to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFilter<'a> {
    /// All of them.
    All,
    /// Those that carry the UID label of this pod. Pods made by hand may lack it and are then not found;
    /// [`RuntimePod::selectable`] tells.
    Pod(&'a PodUid),
}

/// A sandbox, as far as a list tells what we need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxEntry {
    /// Its id.
    pub id: SandboxId,
    /// The UID of its pod; empty if the runtime was not told.
    pub pod_uid: Arc<str>,
    /// The namespace of its pod; empty if the runtime was not told.
    pub pod_namespace: Arc<str>,
    /// The name of its pod; empty if the runtime was not told.
    pub pod_name: Arc<str>,
    /// How many sandboxes this pod had before it.
    pub attempt: u32,
    /// Its state; unknown if the entry could not be read to its end.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: UnixNanos,
    /// The UID label by which a filtered list finds it; empty if it has none.
    pub uid_label: Arc<str>,
}

/// A container, as far as a list tells what we need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEntry {
    /// Its id.
    pub id: ContainerId,
    /// Its sandbox; empty if the runtime did not say.
    pub sandbox: SandboxId,
    /// Its name in the pod; empty if the runtime was not told.
    pub name: Arc<str>,
    /// How many containers of this name the pod had before it.
    pub attempt: u32,
    /// Its state; unknown if the entry could not be read to its end.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: UnixNanos,
    /// The UID of its pod, by its label; empty if it has none.
    pub pod_uid: Arc<str>,
    /// The namespace of its pod, by its label; empty if it has none.
    pub pod_namespace: Arc<str>,
    /// The name of its pod, by its label; empty if it has none.
    pub pod_name: Arc<str>,
}

/// The answer to a list of sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxList {
    /// The sandboxes, each once, in no particular order.
    pub entries: Vec<SandboxEntry>,
    /// How many entries, at least, could not be read, not even their id. While it is not zero, nothing that is
    /// missing may be taken as removed.
    pub unreadable: usize,
    /// The connection that answered.
    pub epoch: u64,
}

/// The answer to a list of containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerList {
    /// The containers, each once, in no particular order.
    pub entries: Vec<ContainerEntry>,
    /// How many entries, at least, could not be read, not even their id. While it is not zero, nothing that is
    /// missing may be taken as removed.
    pub unreadable: usize,
    /// The connection that answered.
    pub epoch: u64,
}

/// Pods, put together from a list of sandboxes and a list of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodListing {
    /// The pods, each once, their sandboxes and containers [sorted](RuntimePod::sort).
    pub pods: Vec<RuntimePod>,
    /// How many entries, at least, could not be read, not even their id. While it is not zero, nothing that is
    /// missing may be taken as removed.
    pub unreadable: usize,
    /// The connection that both lists came over; `None` if they came over different ones, so that the runtime may
    /// have restarted in between.
    pub epoch: Option<u64>,
}
