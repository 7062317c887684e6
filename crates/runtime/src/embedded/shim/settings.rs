//! What a shim and its helper need to know, written by the runtime as `shim.json` in the container's folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::embedded::error::{Error, Result};
use crate::embedded::process::Rights;
use crate::embedded::seccomp::{self, Filter};
use crate::embedded::store;
use crate::image::rootfs;

/// File name in the container's folder.
pub(crate) const FILE: &str = "shim.json";

/// Everything about one container that is not in its OCI spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The container's id.
    pub(crate) id: String,
    /// Where its output goes; nowhere if absent.
    pub(crate) log_path: Option<PathBuf>,
    /// Keep standard input open, so that a reader waits instead of seeing the end.
    pub(crate) stdin: bool,
    /// Give it a terminal.
    pub(crate) tty: bool,
    /// Its control group below each hierarchy's mount point; empty if there are none for us.
    pub(crate) cgroup: String,
    /// How many files a program may have open, unless it asks for more; as it is, if absent.
    #[serde(default)]
    pub(crate) open_files: Option<u64>,
    /// Whether its processes die with its first one by the kernel's doing.
    pub(crate) own_pid_namespace: bool,
    /// What its root is made of.
    pub(crate) rootfs: RootfsPlan,
    /// The image's volumes, by their places in the container: what the image has there is put into their folders.
    #[serde(default)]
    pub(crate) image_volumes: Vec<String>,
    /// Whether a mount must spread back to the host.
    pub(crate) shared_mounts: bool,
    /// What runs in it.
    pub(crate) payload: Payload,
}

impl Settings {
    /// Those of the container whose folder this process works in.
    pub(super) fn read() -> Result<Self> {
        let missing = || Error::Internal("not a container's folder: it has no settings".to_owned());
        store::read_json(Path::new(FILE))?.ok_or_else(missing)
    }
}

/// What a root file system is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RootfsPlan {
    /// The host's root, with these mount points.
    Host(rootfs::Options),
    /// Layers, topmost first, with a writable layer in the container's folder.
    Layers(Vec<PathBuf>),
    /// Nothing at all.
    Empty,
}

/// What runs in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Payload {
    /// The program of the OCI spec, and what it is left with.
    Program(Confinement),
    /// Nothing but the reaping of orphans: it holds a pod's process namespace.
    Pause,
}

/// What programs in the container are left with. Not in the OCI spec: the container library would give up the right to
/// load a filter before anybody could load one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) rights: Rights,
    /// Whether there is a filter on system calls, in a file of its own.
    pub(crate) filtered: bool,
}

impl Confinement {
    /// The filter of the container whose folder this process works in. One that is missing is an error, not none.
    pub(super) fn filter(self) -> Result<Option<Filter>> {
        if !self.filtered {
            return Ok(None);
        }
        let broken = || Error::Internal("the container's seccomp filter is missing".to_owned());
        let bytes = store::read(Path::new(seccomp::FILE))?.ok_or_else(broken)?;
        Filter::from_bytes(&bytes).map(Some).ok_or_else(broken)
    }
}
