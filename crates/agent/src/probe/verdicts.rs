//! What the probes have found out about the containers of a pod.

use std::collections::BTreeMap;

use rubelet_model::ContainerId;

use super::course::{Kind, Verdict};

/// The verdicts on one container; `None` where there is no verdict yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfContainer {
    pub(crate) startup: Option<Verdict>,
    pub(crate) liveness: Option<Verdict>,
    pub(crate) readiness: Option<Verdict>,
}

impl OfContainer {
    pub(super) fn by(self, kind: Kind) -> Option<Verdict> {
        match kind {
            Kind::Startup => self.startup,
            Kind::Liveness => self.liveness,
            Kind::Readiness => self.readiness,
        }
    }

    fn by_mut(&mut self, kind: Kind) -> &mut Option<Verdict> {
        match kind {
            Kind::Startup => &mut self.startup,
            Kind::Liveness => &mut self.liveness,
            Kind::Readiness => &mut self.readiness,
        }
    }
}

/// The verdicts on the containers of a pod, by instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    by_container: BTreeMap<ContainerId, OfContainer>,
}

impl Verdicts {
    /// Returns the verdicts on one container.
    pub(crate) fn of(&self, id: &ContainerId) -> OfContainer {
        self.by_container.get(id).copied().unwrap_or_default()
    }

    /// Returns every container on which there is a verdict.
    pub(super) fn all(&self) -> impl Iterator<Item = (&ContainerId, OfContainer)> {
        self.by_container.iter().map(|(id, verdicts)| (id, *verdicts))
    }

    /// Sets a verdict; returns whether that changed anything.
    pub(super) fn set(&mut self, id: &ContainerId, kind: Kind, verdict: Option<Verdict>) -> bool {
        let known = self.by_container.entry(id.clone()).or_default().by_mut(kind);
        std::mem::replace(known, verdict) != verdict
    }

    /// Removes all other verdicts; returns whether there were any.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&ContainerId, Kind) -> bool) -> bool {
        let mut forgot = false;
        self.by_container.retain(|id, verdicts| {
            let gone = Kind::ALL.into_iter().filter(|kind| !is_kept(id, *kind));
            for kind in gone {
                forgot |= verdicts.by_mut(kind).take().is_some();
            }
            Kind::ALL.into_iter().any(|kind| is_kept(id, kind))
        });
        forgot
    }
}

#[cfg(test)]
impl Verdicts {
    /// Returns the verdicts on containers that have no probes.
    pub(crate) fn without_probes() -> Self {
        Self::default()
    }

    /// Adds a verdict on one container.
    pub(crate) fn with(mut self, id: &str, verdict: OfContainer) -> Self {
        self.by_container.insert(id.into(), verdict);
        self
    }
}
