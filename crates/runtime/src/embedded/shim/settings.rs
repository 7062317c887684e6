//! The settings of a shim and its helper, written by the runtime as `shim.json` in the container's folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::embedded::error::{Error, Result};
use crate::embedded::process::Rights;
use crate::embedded::seccomp::{self, Filter};
use crate::embedded::store;
use crate::image::rootfs;

/// The file name in the container's folder.
pub(crate) const FILE: &str = "shim.json";

/// Everything about one container that is not in its OCI spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The container's id.
    pub(crate) id: String,
    /// The file for its output, which is discarded if this is absent.
    pub(crate) log_path: Option<PathBuf>,
    /// Keep standard input open, so that a reader waits instead of seeing the end of the file.
    pub(crate) stdin: bool,
    /// Give it a terminal.
    pub(crate) tty: bool,
    /// Its control group, relative to each hierarchy's mount point; empty if we have no control groups.
    pub(crate) cgroup: String,
    /// How many files a program may have open, unless it asks for more; unchanged if absent.
    #[serde(default)]
    pub(crate) open_files: Option<u64>,
    /// Whether the kernel kills its processes when its first one ends.
    pub(crate) own_pid_namespace: bool,
    /// What its root is made of.
    pub(crate) rootfs: RootfsPlan,
    /// The image's volumes, by their paths in the container: what the image has there is copied into their folders.
    #[serde(default)]
    pub(crate) image_volumes: Vec<String>,
    /// Whether a mount must propagate back to the host.
    pub(crate) shared_mounts: bool,
    /// What runs in it.
    pub(crate) payload: Payload,
}

impl Settings {
    /// Reads the settings of the container whose folder this process works in.
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
    /// The program of the OCI spec, and the privileges that it keeps.
    Program(Confinement),
    /// Only the reaping of orphans: it holds a pod's process namespace.
    Pause,
}

/// The privileges that programs in the container keep. They are not in the OCI spec, because the container library
/// would give up the capability to load a filter before anything could load one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) rights: Rights,
    /// Whether there is a system call filter, in a separate file.
    pub(crate) filtered: bool,
}

impl Confinement {
    /// Reads the filter of the container whose folder this process works in. If the file is missing, that is an error.
    pub(super) fn filter(self) -> Result<Option<Filter>> {
        if !self.filtered {
            return Ok(None);
        }
        let broken = || Error::Internal("the container's seccomp filter is missing".to_owned());
        let bytes = store::read(Path::new(seccomp::FILE))?.ok_or_else(broken)?;
        Filter::from_bytes(&bytes).map(Some).ok_or_else(broken)
    }
}
