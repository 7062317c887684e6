//! The cgroups of pods: one for all pods, inside it one for each class, and inside that one for each pod.
//!
//! The agent creates them and sets their resources; the runtime creates the cgroups of containers below them. So the
//! kernel divides the machine among classes and pods before it does so among containers, and a limit of a pod holds for
//! the pod as a whole.

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

/// How the cgroups of pods are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupSettings {
    /// The cgroup driver.
    pub driver: Driver,
    /// The cgroup below which all pods are; `/` is the root cgroup.
    pub root: String,
    /// The maximum number of processes in a pod.
    pub pids_limit: Option<i64>,
}

impl Default for CgroupSettings {
    fn default() -> Self {
        Self { driver: Driver::Cgroupfs, root: "/".to_owned(), pids_limit: None }
    }
}

/// Why pods have no cgroups of their own here.
#[derive(Debug, thiserror::Error)]
pub enum NoGroups {
    /// No cgroups are mounted.
    #[error("no control groups are mounted below /sys/fs/cgroup")]
    NotMounted,
    /// They are mounted, but the agent may not use them.
    #[error(transparent)]
    NotOurs(io::Error),
}

/// The cgroup of a pod could not be created, changed or removed.
#[derive(Debug, thiserror::Error)]
#[error("control group {group}: {source}")]
pub struct GroupError {
    group: GroupName,
    source: io::Error,
}

/// What all pods may use together: the machine without the reserved resources. The eviction margin is not subtracted:
/// that is the business of whatever evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) cpu_shares: i64,
    /// `None` if no memory is reserved: the machine is then the limit.
    pub(crate) memory: Option<i64>,
}

impl Whole {
    /// Computes this for a node; `None` if pods are not to be limited, or if the number of processors is unknown.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        let reserved = settings.reserved.as_ref()?.get("memory").map(|memory| memory.units());
        let cpu = settings.allocatable.get("cpu")?;
        let left = |reserved: i64| settings.machine.memory.saturating_sub(reserved);
        Some(Self {
            cpu_shares: shares(cpu.millis()),
            // If more than the whole machine is reserved, a limit would leave nothing to run with.
            memory: reserved.filter(|reserved| *reserved > 0).map(left).filter(|left| *left > 0),
        })
    }
}

/// The cgroups of all pods.
#[derive(Debug)]
pub struct PodGroups {
    driver: Driver,
    root: GroupName,
    pids_limit: Option<i64>,
    whole: Option<Whole>,
    /// Whether the kernel could not enforce this the last time, so that it is logged only once.
    is_boundless: AtomicBool,
    /// `None` if systemd manages cgroups: it creates a slice on demand.
    hierarchies: Option<Hierarchies>,
    /// The CPU requests of burstable pods, which determine the weight of their class. The lock is held until the weight
    /// is written, so that the last write reflects the latest requests.
    burstable: Mutex<BTreeMap<PodUid, i64>>,
    /// Pods whose cgroups could not be removed the last time: they contain processes that the runtime does not know of.
    haunted: Mutex<BTreeSet<PodUid>>,
}

/// Another agent may remove a parent cgroup between two steps of a creation, which is then repeated.
const ATTEMPTS: usize = 3;

impl PodGroups {
    /// Finds out whether cgroups can be created here.
    ///
    /// # Errors
    ///
    /// If they cannot; pods are then where the runtime puts them.
    pub fn open(settings: &CgroupSettings) -> Result<Self, NoGroups> {
        // The table is read as bytes: others may mount anything, with names in any encoding.
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

    /// Uses the cgroups of a machine that has them in this folder.
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

    /// Returns the same groups, but with a limit for all pods together.
    pub(crate) fn within(self, whole: Option<Whole>) -> Self {
        Self { whole, ..self }
    }

    /// Makes the kernel limit all pods together. If that fails, pods run nevertheless: it is not their fault.
    fn bound(&self, hierarchies: &Hierarchies) {
        let Some(Whole { cpu_shares, memory }) = self.whole else { return };
        match hierarchies.bound(&self.root, cpu_shares, memory) {
            // The cgroup does not exist, so there is nothing to limit.
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

    /// Returns the cgroup parent of a pod, for the runtime.
    pub(crate) fn parent(&self, pod: &Pod) -> String {
        self.group(pod).written(self.driver)
    }

    fn group(&self, pod: &Pod) -> GroupName {
        self.root.tier(qos_class(pod)).pod(&pod_ref(pod).uid)
    }

    /// Creates the cgroup of a pod, and sets its resources. Blocks.
    pub(crate) fn ensure(&self, pod: &Pod, machine: &Machine) -> Result<(), GroupError> {
        self.set(pod, &pod_amounts(pod, machine), machine)
    }

    /// Sets the resources of a pod's cgroup, which is created if it does not exist. Blocks.
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
            // Other pods do not wait for what follows the creation: the kernel may take seconds to reclaim memory.
            let made = self.make(hierarchies, &group, pod);
            self.bound(hierarchies);
            let set = made.and_then(|()| hierarchies.write(&group, &values));
            match set {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {}
                result => return result.map_err(|source| GroupError { group, source }),
            }
        }
    }

    /// Creates the cgroup of a pod, in a class whose weight includes it.
    fn make(&self, hierarchies: &Hierarchies, group: &GroupName, pod: &Pod) -> io::Result<()> {
        let class = qos_class(pod);
        let mut burstable = self.burstable.lock();
        if class == QosClass::Burstable {
            burstable.insert(pod_ref(pod).uid, millicores(pod));
        }
        hierarchies.make(group)?;
        self.weigh(hierarchies, class, &burstable)
    }

    /// Counts a pod whose cgroup an earlier agent has created, so that its class has the weight of all its pods.
    /// Blocks.
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

    /// Sets the weight of a class, if it has one.
    fn weigh(
        &self,
        hierarchies: &Hierarchies,
        class: QosClass,
        burstable: &BTreeMap<PodUid, i64>,
    ) -> io::Result<()> {
        let weight = match class {
            // Its cgroup is that of all pods.
            QosClass::Guaranteed => return Ok(()),
            QosClass::Burstable => {
                shares(burstable.values().fold(0, |sum, millis| sum.saturating_add(*millis)))
            }
            QosClass::BestEffort => shares(0),
        };
        match hierarchies.write(&self.root.tier(class), &Values::weight(weight)) {
            // The class has no pods, so there is nothing to weigh.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Kills the processes that are left of containers which have ended according to the runtime: if the shim of a
    /// container was killed, the runtime considers the container ended, but leaves its processes behind. To be called
    /// before another container of the same name is created. Blocks.
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

    /// Removes the cgroup of a pod in which nothing is running any more according to the runtime, whatever its class
    /// was. Blocks.
    ///
    /// A runtime that is killed while it creates a container may forget it, and then nothing else ends its processes.
    /// Processes that are still in the cgroup on the second attempt are killed; on the first attempt, they may just be
    /// exiting.
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

/// Returns the CPU request of a pod.
fn millicores(pod: &Pod) -> i64 {
    requests(pod).get("cpu").map_or(0, |cpu| cpu.millis())
}

/// Whether a pod has limits of its own, not just those of its containers.
pub(crate) fn limits_itself(pod: &Pod) -> bool {
    let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    own.and_then(|resources| resources.limits.as_ref()).is_some_and(|limits| !limits.is_empty())
}

#[cfg(test)]
mod tests;
