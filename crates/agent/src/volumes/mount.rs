//! What a container sees of a volume.

use std::path::PathBuf;

/// One mount of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The volume's name in the pod.
    pub volume: String,
    /// What to mount.
    pub host_path: PathBuf,
    /// Where the container sees it.
    pub container_path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
    /// Whether that holds for mounts inside it, too. Asked for only together with `read_only`.
    pub recursive_read_only: RecursiveReadOnly,
    /// Who sees mounts made later.
    pub propagation: Propagation,
    /// Whether the runtime may give it the container's `SELinux` label: what the agent made itself.
    pub selinux_relabel: bool,
}

/// Who sees mounts that are made later inside a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Nobody on the other side.
    #[default]
    Private,
    /// The container sees those of the host.
    HostToContainer,
    /// Each side sees those of the other.
    Bidirectional,
}

/// Whether a read-only mount makes the mounts inside it read-only, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecursiveReadOnly {
    /// No.
    #[default]
    Disabled,
    /// If the runtime can.
    IfPossible,
    /// Yes; a runtime that cannot may not run the container.
    Enabled,
}
