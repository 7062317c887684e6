//! What probes have found out about containers.

use std::collections::BTreeMap;

use rubelet_model::ContainerId;

/// What a probe says of a container, once it has said it often enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
}

/// The verdicts on one container; nothing where there is none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfContainer {
    pub(crate) startup: Option<Verdict>,
    pub(crate) liveness: Option<Verdict>,
    pub(crate) readiness: Option<Verdict>,
}

impl OfContainer {
    /// Every probe has passed.
    pub(crate) const PASSED: Self = Self {
        startup: Some(Verdict::Success),
        liveness: Some(Verdict::Success),
        readiness: Some(Verdict::Success),
    };
}

/// The verdicts on the containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    by_container: BTreeMap<ContainerId, OfContainer>,
    otherwise: OfContainer,
}

impl Verdicts {
    /// The verdicts of a node that runs no probes: everything is taken to be well.
    pub(crate) fn without_probes() -> Self {
        Self { by_container: BTreeMap::new(), otherwise: OfContainer::PASSED }
    }

    /// The verdicts on one container.
    pub(crate) fn of(&self, id: &ContainerId) -> OfContainer {
        self.by_container.get(id).copied().unwrap_or(self.otherwise)
    }
}

#[cfg(test)]
impl Verdicts {
    /// With a verdict on one container.
    pub(crate) fn with(mut self, id: &str, verdict: OfContainer) -> Self {
        self.by_container.insert(id.into(), verdict);
        self
    }
}
