//! What control groups of pods are called: the same group by its path, or by the name of its slice.

use std::fmt;
use std::str::FromStr;

use rubelet_model::{ContainerId, PodUid};

use crate::pod::QosClass;

/// The group of all pods.
const ROOT: &str = "kubepods";

/// Who makes groups, and so what they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// Whoever needs one makes a folder: `/kubepods/burstable/pod1234`.
    #[default]
    Cgroupfs,
    /// systemd does, and wants to be asked: `kubepods-burstable-pod1234.slice`.
    Systemd,
}

/// Not a way to make groups.
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

/// A group, by the names on the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupName(Vec<String>);

impl GroupName {
    /// The group of all pods, below a group of the administrator's (`/` is the root of all).
    pub(crate) fn root(below: &str) -> Self {
        let parts = below.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..");
        Self(parts.map(str::to_owned).chain([ROOT.to_owned()]).collect())
    }

    /// The group of all pods of a class. Those who can count on everything are in the group of all pods.
    pub(crate) fn tier(&self, class: QosClass) -> Self {
        match class {
            QosClass::Guaranteed => self.clone(),
            QosClass::Burstable => self.child("burstable"),
            QosClass::BestEffort => self.child("besteffort"),
        }
    }

    /// The group of a pod in the group of its class.
    pub(crate) fn pod(&self, uid: &PodUid) -> Self {
        self.child(&format!("pod{uid}"))
    }

    /// What runtimes call the group of a container of a pod: containerd and ours by its id, CRI-O by that and its own name.
    pub(super) fn containers(&self, id: &ContainerId) -> [Self; 2] {
        [self.child(id.as_str()), self.child(&format!("crio-{id}"))]
    }

    fn child(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// Itself and everything above it, from the top.
    pub(super) fn lineage(&self) -> impl Iterator<Item = Self> {
        (1..=self.0.len()).map(|count| Self(self.0[..count].to_vec()))
    }

    /// As a runtime is told.
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

    /// `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice`: a dash separates, so names have none.
    fn slices(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|part| part.replace('-', "_")).collect();
        let slice = |count: usize| format!("/{}.slice", names[..count].join("-"));
        (1..=names.len()).map(slice).collect()
    }
}

impl fmt::Display for GroupName {
    /// As a kubelet writes it in messages.
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
