//! The reasons why a volume is unavailable.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::downward::DownwardError;
use crate::environment::ExpansionError;

use super::room::{MOST_OF_POD, MOST_OF_VOLUME};

/// Why a volume cannot be prepared or removed, or why a mount is impossible.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// One volume of the pod cannot be set up.
    #[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
    SetUp {
        /// Its name.
        volume: String,
        /// Why.
        source: Box<VolumeError>,
    },
    /// Several things are wrong with one volume.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<VolumeError>),
    /// The pod uses a type of volume that this agent does not support.
    #[error(
        "volume type {0} is not supported; use emptyDir, hostPath, configMap, secret, projected or downwardAPI"
    )]
    Unsupported(&'static str),
    /// The config map does not exist in the pod's source.
    #[error("configmap {0:?} not found")]
    NoConfigMap(String),
    /// The secret does not exist in the pod's source.
    #[error("secret {0:?} not found")]
    NoSecret(String),
    /// An item names a key that does not exist.
    #[error("configmap references non-existent config key: {0}")]
    NoConfigMapKey(String),
    /// An item names a key that does not exist.
    #[error("references non-existent secret key: {0}")]
    NoSecretKey(String),
    /// A file of the volume would be outside of it, or has a name that no file can have.
    #[error("invalid path {path:?} in the volume: {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The agent would have to write more to one volume than it is willing to.
    #[error(
        "the files of this volume take up more than {} MiB, the most that a volume may have",
        MOST_OF_VOLUME >> 20
    )]
    TooLarge,
    /// The agent would have to write more for one pod than it is willing to.
    #[error(
        "the files of the pod's volumes take up more than {} MiB together, the most that a pod may have",
        MOST_OF_POD >> 20
    )]
    TooLargeTogether,
    /// A reference to the pod itself does not resolve.
    #[error(transparent)]
    Downward(#[from] DownwardError),
    /// The host path is not what the manifest says it is.
    #[error("hostPath type check failed: {} is not a {kind}", .path.display())]
    HostPath {
        /// The path.
        path: PathBuf,
        /// What it should be.
        kind: &'static str,
    },
    /// `medium: HugePages` is ambiguous: there is not exactly one size of huge pages that the containers request.
    #[error(
        "medium HugePages needs exactly one hugepages-<size> resource in the pod; otherwise name the size, as in \
         HugePages-2Mi"
    )]
    HugePages,
    /// The container mounts a volume that the pod does not have.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoVolume {
        /// The name.
        volume: String,
        /// The container.
        container: String,
    },
    /// The `subPath` leads out of the volume.
    #[error("subPath {subpath:?} of volume {volume:?} leads out of the volume, or is not a path inside it")]
    Escapes {
        /// The volume.
        volume: String,
        /// The path.
        subpath: String,
    },
    /// The `subPathExpr` uses a variable that the container does not have.
    #[error("failed to expand subPathExpr {expression:?}: {source}")]
    Expansion {
        /// The expression.
        expression: String,
        /// Why.
        source: ExpansionError,
    },
    /// Something is still mounted inside, so nothing there may be deleted.
    #[error("{} still contains a mount, so nothing in it is deleted: unmount it, or wait until it is no longer in use", .0.display())]
    StillMounted(PathBuf),
    /// The disk does not respond.
    #[error("waiting for the disk: {what}")]
    Late {
        /// The operation in progress.
        what: String,
    },
    /// A system call failed.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// The operation, such as `create`.
        doing: &'static str,
        /// The path that it was for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl VolumeError {
    /// Combines errors: one stays as it is, several become a list; `None` if there are none.
    pub(super) fn all_in_one(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    pub(crate) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}
