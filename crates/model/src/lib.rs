//! The vocabulary of rubelet: pods, sandboxes and containers as a container runtime reports them.
//!
//! Two views of the same world, and nothing else:
//!
//! - the *list view* ([`RuntimePod`]): what two list calls tell about every pod, cheap, read often;
//! - the *inspected view* ([`PodStatus`]): what the status calls tell about one pod, read when it changed.
//!
//! A list view makes an inspected one (`PodStatus::from(&pod)`) with nothing in it that only an inspection tells: of use to
//! fakes.
//!
//! There is no I/O, no async and no clock here. Wire types stay in `rubelet-cri`; desired state
//! (pod specs) is another vocabulary and does not belong here.

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
