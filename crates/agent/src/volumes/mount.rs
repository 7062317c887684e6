//! How a container sees a volume.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::{PodDirectory, Prepared, VolumeError, subpath};
use crate::environment::{Environment, expand_all_or_nothing};

/// One mount of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The name of the volume in the pod.
    pub volume: String,
    /// The path to mount.
    pub host_path: PathBuf,
    /// The path at which the container sees it.
    pub container_path: String,
    /// Whether it is read-only for the container.
    pub read_only: bool,
    /// Whether this extends to the mounts inside it. Only requested together with `read_only`.
    pub recursive_read_only: RecursiveReadOnly,
    /// Who sees mounts that are made later.
    pub propagation: Propagation,
    /// Whether the runtime may set the container's `SELinux` label on it: true for what the agent itself created.
    pub selinux_relabel: bool,
}

/// Who sees mounts that are made later inside a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Neither side sees those of the other.
    #[default]
    Private,
    /// The container sees those of the host.
    HostToContainer,
    /// Each side sees those of the other.
    Bidirectional,
}

/// Whether a read-only mount makes the mounts inside it read-only as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecursiveReadOnly {
    /// It does not.
    #[default]
    Disabled,
    /// It does if the runtime supports it.
    IfPossible,
    /// It does; a runtime that does not support this must not run the container.
    Enabled,
}

impl RecursiveReadOnly {
    /// Returns what a manifest asks for.
    pub(crate) fn of(mount: &VolumeMount) -> Self {
        match mount.recursive_read_only.as_deref() {
            Some("Enabled") => Self::Enabled,
            Some("IfPossible") => Self::IfPossible,
            _ => Self::Disabled,
        }
    }

    /// Returns whether it applies on a runtime that does or does not support it; `None` if it is required but not
    /// supported.
    pub(crate) fn resolve(self, can: bool) -> Option<bool> {
        match self {
            Self::Disabled => Some(false),
            Self::IfPossible => Some(can),
            Self::Enabled => can.then_some(true),
        }
    }
}

pub(super) fn make(
    directory: &PodDirectory,
    prepared: &Prepared,
    container: &Container,
    environment: &Environment,
    index: usize,
    wanted: &VolumeMount,
) -> Result<Mount, VolumeError> {
    let volume = prepared.volumes.get(&wanted.name).ok_or_else(|| VolumeError::NoVolume {
        volume: wanted.name.clone(),
        container: container.name.clone(),
    })?;
    let propagation = match wanted.mount_propagation.as_deref() {
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        _ => Propagation::Private,
    };
    let host_path = match subpath_of(wanted, environment)? {
        None => volume.path.clone(),
        Some(path) => {
            let inside = subpath::open(&wanted.name, volume, &path)?;
            let target = directory.subpath(&wanted.name, &container.name, index);
            subpath::bind(inside, &target, propagation)?;
            target
        }
    };
    Ok(Mount {
        volume: wanted.name.clone(),
        host_path,
        container_path: absolute(&wanted.mount_path),
        read_only: volume.read_only || wanted.read_only == Some(true),
        recursive_read_only: RecursiveReadOnly::of(wanted),
        propagation,
        selinux_relabel: volume.is_ours,
    })
}

fn subpath_of(wanted: &VolumeMount, environment: &Environment) -> Result<Option<String>, VolumeError> {
    let given = |path: &Option<String>| path.clone().filter(|path| !path.is_empty());
    match given(&wanted.sub_path_expr) {
        None => Ok(given(&wanted.sub_path)),
        Some(expression) => expand_all_or_nothing(&expression, |name| environment.get(name))
            .map(Some)
            .map_err(|source| VolumeError::Expansion { expression, source }),
    }
}

/// Returns the path as an absolute one, which runtimes require; manifests may say `data` and mean `/data`.
pub(crate) fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}
