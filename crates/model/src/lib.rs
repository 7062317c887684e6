//! The vocabulary of rubelet: pods, sandboxes and containers as a container runtime reports them.
//!
//! There are two views of the same world:
//!
//! - the *list view* ([`RuntimePod`]): what the two list calls report about every pod; cheap, and read often;
//! - the *inspected view* ([`PodStatus`]): what the status calls report about one pod; read when the pod has changed.
//!
//! A list view converts into an inspected view (`PodStatus::from(&pod)`) in which everything that only an inspection
//! reports is empty. Fakes use this.
//!
//! There is no I/O, no async and no clock here. Wire types stay in `rubelet-cri`; desired state (pod specs) is another
//! vocabulary and does not belong here.

mod id;
mod listed;
mod presumed;
mod state;
mod status;
mod unix_nanos;

pub use id::{ContainerId, PodRef, PodUid, SandboxId};
pub use listed::{ListedContainer, ListedSandbox, RuntimePod};
pub use state::{ContainerState, SandboxState};
pub use status::{ContainerStatus, ContainerUser, PodStatus, SandboxStatus};
pub use unix_nanos::UnixNanos;
