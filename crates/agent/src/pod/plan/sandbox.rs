//! Whether a pod needs a new sandbox.

use rubelet_model::{SandboxId, SandboxState};

use super::{Inputs, PodNetwork};
use crate::pod::spec;

/// A sandbox to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// How many the pod had before it.
    pub(crate) attempt: u32,
    /// The one that it takes the place of.
    pub(crate) replaces: Option<SandboxId>,
}

pub(super) enum Decision {
    Keep { id: SandboxId, attempt: u32 },
    Recreate(Replacement),
}

pub(super) fn decide(Inputs { pod, status, network, .. }: Inputs<'_>) -> Decision {
    let Some(newest) = status.sandboxes.first() else {
        return Decision::Recreate(Replacement { attempt: 0, replaces: None });
    };
    let ready = status.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let lacks_address =
        network == PodNetwork::Addressed && !spec::uses_host_network(pod) && newest.ips.is_empty();
    if ready > 1 || newest.state != SandboxState::Ready || lacks_address {
        let replaces = Some(newest.id.clone());
        return Decision::Recreate(Replacement { attempt: newest.attempt + 1, replaces });
    }
    Decision::Keep { id: newest.id.clone(), attempt: newest.attempt }
}
