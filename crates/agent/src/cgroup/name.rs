//! The names of the cgroups of pods: a cgroup has a path, or the name of its slice.

use std::fmt;
use std::str::FromStr;

use rubelet_model::{ContainerId, PodUid};

use crate::pod::QosClass;

/// The cgroup of all pods.
const ROOT: &str = "kubepods";

/// The cgroup driver: it creates cgroups, and so determines their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Whoever needs a cgroup creates a folder: `/kubepods/burstable/pod1234`.
    #[default]
    Cgroupfs,
    /// systemd creates cgroups on request: `kubepods-burstable-pod1234.slice`.
    Systemd,
}

/// The text names no known driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not \"cgroupfs\" or \"systemd\"")]
pub struct UnknownDriver(String);

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        })
    }
}

impl FromStr for Driver {
    type Err = UnknownDriver;

    fn from_str(text: &str) -> Result<Self, UnknownDriver> {
        match text {
            "cgroupfs" => Ok(Self::Cgroupfs),
            "systemd" => Ok(Self::Systemd),
            other => Err(UnknownDriver(other.to_owned())),
        }
    }
}

/// A cgroup, as the names on its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupName(Vec<String>);

impl GroupName {
    /// Returns the cgroup of all pods, below one of the administrator's choice (`/` is the root cgroup).
    pub(crate) fn root(below: &str) -> Self {
        let parts = below.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
        Self(parts.map(str::to_owned).chain([ROOT.to_owned()]).collect())
    }

    /// Returns the cgroup of all pods of a class. Guaranteed pods are directly in the cgroup of all pods.
    pub(crate) fn tier(&self, class: QosClass) -> Self {
        match class {
            QosClass::Guaranteed => self.clone(),
            QosClass::Burstable => self.child("burstable"),
            QosClass::BestEffort => self.child("besteffort"),
        }
    }

    /// Returns the cgroup of a pod, in that of its class.
    pub(crate) fn pod(&self, uid: &PodUid) -> Self {
        self.child(&format!("pod{uid}"))
    }

    /// Returns the names that runtimes give to the cgroup of a container in a pod: containerd and the built-in runtime
    /// use its ID, CRI-O uses that with its own prefix.
    pub(super) fn containers(&self, id: &ContainerId) -> [Self; 2] {
        [self.child(id.as_str()), self.child(&format!("crio-{id}"))]
    }

    fn child(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// Returns this cgroup and all its parents, starting at the top.
    pub(super) fn lineage(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|count| Self(self.0[..count].to_vec()))
    }

    /// Returns the form that a runtime expects.
    pub(crate) fn written(&self, driver: Driver) -> String {
        match driver {
            Driver::Cgroupfs => self.path(),
            Driver::Systemd => self.slices(),
        }
    }

    /// `/kubepods/burstable/pod1234`.
    pub(super) fn path(&self) -> String {
        format!("/{}", self.0.join("/"))
    }

    /// Returns, for example, `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice`. A dash is
    /// the separator, so names contain none.
    fn slices(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|part| part.replace('-', "_")).collect();
        let slice = |count: usize| format!("/{}.slice", names[..count].join("-"));
        (1..=names.len()).map(slice).collect()
    }
}

impl fmt::Display for GroupName {
    /// Writes the name as a kubelet does in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kubelets() {
        let uid = PodUid::from("12-34");
        let root = GroupName::root("/");
        let table = [
            (QosClass::Guaranteed, "/kubepods/pod12-34", "/kubepods.slice/kubepods-pod12_34.slice"),
            (
                QosClass::Burstable,
                "/kubepods/burstable/pod12-34",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice",
            ),
            (
                QosClass::BestEffort,
                "/kubepods/besteffort/pod12-34",
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12_34.slice",
            ),
        ];
        for (class, path, slices) in table {
            let name = root.tier(class).pod(&uid);
            assert_eq!(name.written(Driver::Cgroupfs), path);
            assert_eq!(name.written(Driver::Systemd), slices);
        }
        let below = GroupName::root("/my/pods/../").tier(QosClass::BestEffort);
        assert_eq!(below.path(), "/my/pods/kubepods/besteffort");
        assert_eq!(below.to_string(), "[my pods kubepods besteffort]");
    }
}
