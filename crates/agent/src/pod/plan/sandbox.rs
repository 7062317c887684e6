//! Whether a pod needs a new sandbox.

use rubelet_model::{SandboxId, SandboxState};

use super::Inputs;
use crate::pod::spec;

/// A sandbox to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// How many sandboxes the pod had before it.
    pub(crate) attempt: u32,
    /// The broken sandbox that it replaces.
    pub(crate) replaces: Option<SandboxId>,
}

pub(super) enum Decision {
    Keep { id: SandboxId, attempt: u32 },
    Recreate(Replacement),
}

pub(super) fn decide(Inputs { pod, status, .. }: Inputs<'_>) -> Decision {
    let Some(newest) = status.sandboxes.first() else {
        return Decision::Recreate(Replacement { attempt: 0, replaces: None });
    };
    let ready = status.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let on_host = spec::uses_host_network(pod);
    let attempt = newest.attempt + 1;
    if ready > 1 || newest.state != SandboxState::Ready {
        return Decision::Recreate(Replacement { attempt, replaces: Some(newest.id.clone()) });
    }
    // The old sandbox is not broken: a different one is wanted, and no event says that it changed.
    let is_on_other_network = newest.is_on_host_network.is_some_and(|is_on_host| is_on_host != on_host);
    let has_other_users = newest.has_own_users.is_some_and(|has_own| has_own != spec::has_own_users(pod));
    if is_on_other_network || has_other_users {
        return Decision::Recreate(Replacement { attempt, replaces: None });
    }
    if !on_host && newest.has_network && newest.ips.is_empty() {
        return Decision::Recreate(Replacement { attempt, replaces: Some(newest.id.clone()) });
    }
    Decision::Keep { id: newest.id.clone(), attempt: newest.attempt }
}
