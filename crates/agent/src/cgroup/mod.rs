//! Control groups of pods: one for all pods, in it one for each class, in that one for each pod.
//!
//! The agent makes them and says what they may use; the runtime makes those of containers below them. So the kernel shares
//! the machine between classes and pods before it does between containers, and a limit of a pod holds for all of it.

mod hierarchy;
mod name;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use rubelet_model::{ContainerId, PodUid};

use crate::pod::{Machine, PodAmounts, QosClass, pod_amounts, pod_ref, qos_class, requests, shares};
use crate::settings::Settings;
use hierarchy::Hierarchies;
use values::{Limits, Values};

pub(crate) use name::GroupName;
pub use name::{Driver, UnknownDriver};

/// How control groups of pods are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSettings {
    /// Who makes groups.
    pub driver: Driver,
    /// The group below which all pods are: `/` is the root of all.
    pub root: String,
    /// How many processes a pod may have.
    pub pids_limit: Option<i64>,
}

impl Default for CgroupSettings {
    fn default() -> Self {
        Self { driver: Driver::Cgroupfs, root: "/".to_owned(), pids_limit: None }
    }
}

/// Why pods have no control groups of their own here.
#[derive(Debug, thiserror::Error)]
pub enum NoGroups {
    /// None are mounted.
    #[error("no control groups are mounted below /sys/fs/cgroup")]
    NotMounted,
    /// They are, but not for us.
    #[error(transparent)]
    NotOurs(io::Error),
}

/// A group of a pod could not be made, changed or removed.
#[derive(Debug, thiserror::Error)]
#[error("control group {group}: {source}")]
pub struct GroupError {
    group: GroupName,
    source: io::Error,
}

/// What all pods may use together: the machine but for what is reserved. What is kept free besides is not taken from them: who
/// evicts takes care of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) cpu_shares: i64,
    /// Nothing if no memory is reserved: then the machine is the limit.
    pub(crate) memory: Option<i64>,
}

impl Whole {
    /// Of a node; nothing, if pods are not to be held to it, or if it is not known how many processors it has.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let reserved = settings.reserved.as_ref()?.get("memory").map(|memory| memory.units());
        let cpu = settings.allocatable.get("cpu")?;
        let left = |reserved: i64| settings.machine.memory.saturating_sub(reserved);
        Some(Self {
            cpu_shares: shares(cpu.millis()),
            // Of more than there is nothing could be given, and nothing would run.
            memory: reserved.filter(|reserved| *reserved > 0).map(left).filter(|left| *left > 0),
        })
    }
}

/// The control groups of all pods.
#[derive(Debug)]
pub struct PodGroups {
    driver: Driver,
    root: GroupName,
    pids_limit: Option<i64>,
    whole: Option<Whole>,
    /// Whether the kernel could not hold them to that the last time: it is told once.
    is_boundless: AtomicBool,
    /// Nothing where systemd makes groups: it makes a slice for whoever wants to be in it.
    hierarchies: Option<Hierarchies>,
    /// What pods ask for that are neither sure of all nor of nothing: the weight of their class. Who changes it holds the
    /// lock until the weight is written, so that what is written last is what is known last.
    burstable: Mutex<BTreeMap<PodUid, i64>>,
    /// Pods whose groups could not be removed the last time: somebody is in them of whom the runtime does not know.
    haunted: Mutex<BTreeSet<PodUid>>,
}

/// A group above may be removed by another agent between two steps of making one: then it is made again.
const ATTEMPTS: usize = 3;

impl PodGroups {
    /// Finds out whether groups can be made here.
    ///
    /// # Errors
    /// If they cannot; pods are then where the runtime puts them.
    pub fn open(settings: &CgroupSettings) -> Result<Self, NoGroups> {
        // Others mount what they like, with names in any encoding.
        let table = std::fs::read("/proc/self/mounts").map_err(NoGroups::NotOurs)?;
        let table = String::from_utf8_lossy(&table);
        let hierarchies = match settings.driver {
            Driver::Systemd => None,
            Driver::Cgroupfs => Some(Hierarchies::of_mounts(&table).ok_or(NoGroups::NotMounted)?),
        };
        let groups = Self::over(hierarchies, settings);
        if let Some(hierarchies) = &groups.hierarchies {
            hierarchies.make(&groups.root).map_err(NoGroups::NotOurs)?;
            hierarchies.remove_if_empty(&groups.root);
        }
        Ok(groups)
    }

    /// Those of a machine that has its control groups in this folder.
    #[cfg(test)]
    pub(crate) fn in_folder(folder: &std::path::Path) -> Self {
        let hierarchies = Hierarchies::in_folder(values::Version::Two, &[(folder.to_owned(), &[])]);
        Self::over(Some(hierarchies), &CgroupSettings::default())
    }

    fn over(hierarchies: Option<Hierarchies>, settings: &CgroupSettings) -> Self {
        Self {
            driver: settings.driver,
            root: GroupName::root(&settings.root),
            pids_limit: settings.pids_limit,
            whole: None,
            is_boundless: AtomicBool::new(false),
            hierarchies,
            burstable: Mutex::default(),
            haunted: Mutex::default(),
        }
    }

    /// The same, but all pods together may use no more than this.
    pub(crate) fn within(self, whole: Option<Whole>) -> Self {
        Self { whole, ..self }
    }

    /// Has the kernel hold all pods together to what they may use. A pod runs though it cannot be: others are to blame.
    fn bound(&self, hierarchies: &Hierarchies) {
        let Some(Whole { cpu_shares, memory }) = self.whole else { return };
        match hierarchies.bound(&self.root, cpu_shares, memory) {
            // Nobody is there to be held.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if !self.is_boundless.swap(true, Ordering::Relaxed) {
                    tracing::warn!(group = %self.root, %error, "cannot enforce the limit that keeps reserved \
                                                                resources free of pods");
                }
            }
            Ok(()) => self.is_boundless.store(false, Ordering::Relaxed),
        }
    }

    /// What the runtime is told about where a pod is.
    pub(crate) fn parent(&self, pod: &Pod) -> String {
        self.group(pod).written(self.driver)
    }

    fn group(&self, pod: &Pod) -> GroupName {
        self.root.tier(qos_class(pod)).pod(&pod_ref(pod).uid)
    }

    /// Makes the group of a pod, and sets what it may use. Blocks.
    pub(crate) fn ensure(&self, pod: &Pod, machine: &Machine) -> Result<(), GroupError> {
        self.set(pod, &pod_amounts(pod, machine), machine)
    }

    /// Sets what the group of a pod may use, and makes it if it is not there. Blocks.
    pub(crate) fn set(&self, pod: &Pod, amounts: &PodAmounts, machine: &Machine) -> Result<(), GroupError> {
        let group = self.group(pod);
        let Some(hierarchies) = &self.hierarchies else {
            return if limits_itself(pod) {
                let why = "pod-level limits are not enforced where systemd manages control groups; set limits on the \
                           containers instead";
                Err(GroupError { group, source: io::Error::new(io::ErrorKind::Unsupported, why) })
            } else {
                Ok(())
            };
        };
        let values = Values {
            cpu_shares: amounts.cpu_shares,
            limits: Some(Limits {
                cpu_quota: amounts.cpu_quota,
                cpu_period: machine.cpu_period,
                memory: amounts.memory,
                pids: self.pids_limit,
                are_own: limits_itself(pod),
            }),
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            // Others do not wait for what comes after it is made: the kernel may take seconds to take memory away.
            let made = self.make(hierarchies, &group, pod);
            self.bound(hierarchies);
            let set = made.and_then(|()| hierarchies.write(&group, &values));
            match set {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {}
                result => return result.map_err(|source| GroupError { group, source }),
            }
        }
    }

    /// Makes the group of a pod, in a class that weighs it, too.
    fn make(&self, hierarchies: &Hierarchies, group: &GroupName, pod: &Pod) -> io::Result<()> {
        let class = qos_class(pod);
        let mut burstable = self.burstable.lock();
        if class == QosClass::Burstable {
            burstable.insert(pod_ref(pod).uid, millicores(pod));
        }
        hierarchies.make(group)?;
        self.weigh(hierarchies, class, &burstable)
    }

    /// Counts a pod whose group an agent before this one has made, so that its class weighs what its pods do. Blocks.
    pub(crate) fn count(&self, pod: &Pod) -> Result<(), GroupError> {
        let Some(hierarchies) = &self.hierarchies else { return Ok(()) };
        self.bound(hierarchies);
        if qos_class(pod) != QosClass::Burstable {
            return Ok(());
        }
        let mut burstable = self.burstable.lock();
        let asks = millicores(pod);
        if burstable.insert(pod_ref(pod).uid, asks) == Some(asks) {
            return Ok(());
        }
        let group = self.root.tier(QosClass::Burstable);
        let weighed = self.weigh(hierarchies, QosClass::Burstable, &burstable);
        weighed.map_err(|source| GroupError { group, source })
    }

    /// Sets the weight of a class that has one.
    fn weigh(
        &self,
        hierarchies: &Hierarchies,
        class: QosClass,
        burstable: &BTreeMap<PodUid, i64>,
    ) -> io::Result<()> {
        let weight = match class {
            // Its group is that of all.
            QosClass::Guaranteed => return Ok(()),
            QosClass::Burstable => {
                shares(burstable.values().fold(0, |sum, millis| sum.saturating_add(*millis)))
            }
            QosClass::BestEffort => shares(0),
        };
        match hierarchies.write(&self.root.tier(class), &Values::weight(weight)) {
            // Nobody of the class is there to be weighed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Kills who is left of containers that have ended by the runtime's word: one whose shim was killed takes its container for
    /// ended, and leaves its processes to whoever comes. To be done before another of the name is made. Blocks.
    pub(crate) fn end_remnants<'a>(&self, pod: &Pod, ended: impl IntoIterator<Item = &'a ContainerId>) {
        let Some(hierarchies) = &self.hierarchies else { return };
        for id in ended {
            for group in self.group(pod).containers(id) {
                let killed = hierarchies.kill(&group);
                if killed > 0 {
                    tracing::warn!(%group, killed, "killed leftover processes of a container that has ended");
                }
            }
        }
    }

    /// Removes the group of a pod of which nothing runs any more by the runtime's word, whatever its class was. Blocks.
    ///
    /// A runtime that is killed while it makes a container may forget it, and then nobody else ends its processes. Who is
    /// in the group when this is tried again is killed; the first time it may be somebody who is just leaving.
    pub(crate) fn forget(&self, uid: &PodUid) -> Result<(), GroupError> {
        let Some(hierarchies) = &self.hierarchies else { return Ok(()) };
        let mut burstable = self.burstable.lock();
        for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
            let group = self.root.tier(class).pod(uid);
            if let Err(source) = hierarchies.remove(&group) {
                if !self.haunted.lock().insert(uid.clone()) {
                    let killed = hierarchies.kill(&group);
                    tracing::warn!(%group, killed, "killed leftover processes of a pod that has ended");
                }
                return Err(GroupError { group, source });
            }
        }
        self.haunted.lock().remove(uid);
        if burstable.remove(uid).is_some() && !burstable.is_empty() {
            let tier = self.root.tier(QosClass::Burstable);
            let weighed = self.weigh(hierarchies, QosClass::Burstable, &burstable);
            weighed.map_err(|source| GroupError { group: tier, source })?;
        }
        for class in [QosClass::Burstable, QosClass::BestEffort, QosClass::Guaranteed] {
            hierarchies.remove_if_empty(&self.root.tier(class));
        }
        Ok(())
    }
}

/// What a pod asks for of cpu.
fn millicores(pod: &Pod) -> i64 {
    requests(pod).get("cpu").map_or(0, |cpu| cpu.millis())
}

/// Whether a pod has limits that are not those of its containers.
pub(crate) fn limits_itself(pod: &Pod) -> bool {
    let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    own.and_then(|resources| resources.limits.as_ref()).is_some_and(|limits| !limits.is_empty())
}

#[cfg(test)]
mod tests;
