//! A container's root filesystem, made from an image.
//!
//! It uses these names in the container's directory, beside whatever else the caller keeps there:
//!
//! ```text
//! rootfs/        the root itself: a mount point, or the files where they had to be copied
//! upper/ work/   what the container wrote over the image's layers, and overlayfs' own scratch
//! scratch/       the private /tmp, /run and /var/tmp of the built-in image
//! ```
//!
//! [`mount`], [`unmount`] and [`remove`] can each be repeated, and continued by another process after a crash.

mod copy;
mod host;
mod mountinfo;
mod overlay;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use serde::{Deserialize, Serialize};

use super::files;
use super::record::{Content, Image};
use super::store::ImageStore;

const ROOTFS: &str = "rootfs";
const UPPER: &str = "upper";
const WORK: &str = "work";
const SCRATCH: &str = "scratch";
const EMPTY: &str = "empty";
/// The file that marks the built-in image's root as completely mounted.
const READY: &str = "rootfs.ready";
/// The directory in which a copy grows until it is complete.
const PARTIAL: &str = "rootfs.partial";

/// What the caller will do with the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Where in the container things will be mounted. Only the built-in image uses this: its root is the host's,
    /// read-only, so that a place that does not exist there has to be created beforehand.
    pub mount_points: Vec<MountPoint>,
    /// Directories of the host that the built-in image shows as empty, such as the runtime's own data.
    pub hide: Vec<PathBuf>,
    /// Whether nothing may be written at all. Only the built-in image uses this, for its private directories.
    #[serde(default)]
    pub read_only: bool,
}

/// A place in the container, by its absolute path there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountPoint {
    /// A directory will be mounted there.
    Dir(PathBuf),
    /// A file will be mounted there.
    File(PathBuf),
}

/// A root filesystem that is ready for use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rootfs {
    /// The root directory.
    pub path: PathBuf,
    /// How it was made.
    pub kind: Kind,
    /// Where the container's writes end up: measure these for its disk usage.
    pub writable: Vec<PathBuf>,
}

/// How a root filesystem was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An overlay over the image's layers.
    Overlay,
    /// A copy of the image's files, where overlays are not possible.
    Copy,
    /// The host's root, read-only.
    Host,
}

/// The error of making or removing a root filesystem.
#[derive(Debug, thiserror::Error)]
pub enum RootfsError {
    /// A file or mount operation failed.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The path it was attempted on.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The built-in image needs mounts, and there is no other way to make its root.
    #[error("the image \"host\" needs permission to mount (run as root, or in a user namespace): {source}")]
    MountRefused {
        /// The system's error.
        source: io::Error,
    },
    /// A mount point is missing on the host, and its directory has too many entries to be rebuilt.
    #[error("{} does not exist on the host, and {} has more than {limit} entries: create it on the host", wanted.display(), parent.display())]
    CrowdedParent {
        /// The mount point.
        wanted: PathBuf,
        /// The nearest directory that exists.
        parent: PathBuf,
        /// The maximum number of entries.
        limit: usize,
    },
    /// A mount point is outside of the root, or passes through something that is not a directory.
    #[error("{} cannot be a mount point in the image \"host\": {source}", wanted.display())]
    MountPoint {
        /// The mount point.
        wanted: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl RootfsError {
    fn io<E: Into<io::Error>>(doing: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source: source.into() }
    }
}

/// Makes the root filesystem of this image in this directory, which the caller has created. What a container wrote
/// there earlier is kept, so after a reboot this restores the same root.
///
/// The caller holds a [lease](ImageStore::lease) on the image, so that its layers stay.
pub fn mount(
    store: &ImageStore,
    image: &Image,
    container_dir: &Path,
    options: &Options,
) -> Result<Rootfs, RootfsError> {
    match image.content {
        Content::Host => mount_host(container_dir, options),
        Content::Layers(_) => mount_layers(&store.layer_dirs(image), container_dir),
    }
}

/// Makes the root filesystem of the built-in image as [`mount`] does, for a process that has no store.
pub fn mount_host(container_dir: &Path, options: &Options) -> Result<Rootfs, RootfsError> {
    let root = container_dir.join(ROOTFS);
    let scratch = container_dir.join(SCRATCH);
    let rootfs = Rootfs { path: root.clone(), kind: Kind::Host, writable: vec![scratch.clone()] };
    // This root consists of many mounts; only the mark tells a complete one from what a killed process left.
    let ready = container_dir.join(READY);
    if ready.exists() && is_mount_point(&root)? {
        return Ok(rootfs);
    }
    remove_tree(&ready)?;
    unmount(container_dir)?;
    create_dir(&root)?;
    create_dir(&scratch)?;
    host::mount(&root, &scratch, options)
        .and_then(|()| fs::write(&ready, "").map_err(RootfsError::io("cannot write", &ready)))
        .inspect_err(|_| {
            if let Err(error) = unmount(container_dir) {
                tracing::warn!(%error, "cannot unmount an incomplete root");
            }
        })?;
    Ok(rootfs)
}

/// Makes the root filesystem of these [layers](ImageStore::layer_dirs), lowest first, as [`mount`] does, for a process
/// that has no store: a helper in a mount namespace of its own.
pub fn mount_layers(layers: &[PathBuf], container_dir: &Path) -> Result<Rootfs, RootfsError> {
    let root = container_dir.join(ROOTFS);
    let upper = container_dir.join(UPPER);
    let overlay = Rootfs { path: root.clone(), kind: Kind::Overlay, writable: vec![upper.clone()] };
    let copied = Rootfs { path: root.clone(), kind: Kind::Copy, writable: vec![root.clone()] };
    if is_mount_point(&root)? {
        return Ok(overlay);
    }
    // The upper directory is created before the first overlay, and removed when a copy takes its place.
    if root.is_dir() && !upper.is_dir() {
        return Ok(copied);
    }
    let work = container_dir.join(WORK);
    let empty = container_dir.join(EMPTY);
    let is_new = create_dir(&upper)?;
    for dir in [&work, &empty, &root] {
        create_dir(dir)?;
    }
    if let Some(top) = layers.last()
        && is_new
    {
        // The root directory of an overlay is its upper directory, so it must have the attributes of the image's.
        copy::attributes_of_dir(top, &upper)?;
    }
    match overlay::mount(&overlay::Lower::of(layers, &empty)?, &upper, &work, &root) {
        Ok(()) => Ok(overlay),
        Err(refusal) if refusal.is_unsupported() => {
            tracing::info!(root = %root.display(), %refusal, "overlays are not possible here; copying the image's \
                                                              files");
            let partial = container_dir.join(PARTIAL);
            remove_tree(&partial)?;
            copy::layers(layers, &partial)?;
            for dir in [&root, &upper, &work, &empty] {
                remove_tree(dir)?;
            }
            fs::rename(&partial, &root).map_err(RootfsError::io("cannot rename", &partial))?;
            Ok(copied)
        }
        Err(refusal) => Err(RootfsError::io("cannot mount an overlay on", &root)(refusal)),
    }
}

/// Makes a copied root a mount on which device nodes do not work, as they do not on an overlay. For a process in a
/// mount namespace of its own, whose end also ends the mount.
pub fn forbid_devices(root: &Path) -> Result<(), RootfsError> {
    rustix::mount::mount_bind(root, root)
        .and_then(|()| host::remount(root, MountFlags::NODEV))
        .map_err(RootfsError::io("cannot forbid devices in", root))
}

/// Copies what a root has at this place, a path without a leading slash, into a folder that the caller has created,
/// with the owners, modes and times of everything, including the folder itself; device nodes are left out. Links never
/// lead outside. If the root has no folder there, nothing happens.
pub fn copy_folder(root: &Path, place: &Path, target: &Path) -> Result<(), RootfsError> {
    copy::folder(root, place, target)
}

/// Unmounts everything, and keeps what the container wrote. It is fine if nothing is mounted, or nothing exists.
pub fn unmount(container_dir: &Path) -> Result<(), RootfsError> {
    let root = container_dir.join(ROOTFS);
    while is_mount_point(&root)? {
        match rustix::mount::unmount(&root, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(RootfsError::io("cannot unmount", &root)(error)),
        }
    }
    Ok(())
}

/// Unmounts everything, and removes all that [`mount`] made, including what the container wrote. The container's
/// directory itself stays, because it belongs to the caller.
pub fn remove(container_dir: &Path) -> Result<(), RootfsError> {
    unmount(container_dir)?;
    // The root goes before `upper`: as long as `upper` exists, a root that is not a mount point is not taken for a
    // copy.
    for name in [READY, PARTIAL, ROOTFS, UPPER, WORK, SCRATCH, EMPTY] {
        remove_tree(&container_dir.join(name))?;
    }
    Ok(())
}

/// Returns whether something is mounted exactly here.
pub fn is_mount_point(path: &Path) -> Result<bool, RootfsError> {
    match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE) {
        Ok(stat) => Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
        Err(error) => Err(RootfsError::io("cannot stat", path)(error)),
    }
}

/// Creates a directory, and returns whether it is new.
fn create_dir(path: &Path) -> Result<bool, RootfsError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        other => other.map(|()| true).map_err(RootfsError::io("cannot create", path)),
    }
}

fn remove_tree(path: &Path) -> Result<(), RootfsError> {
    files::remove_tree(path).map_err(RootfsError::io("cannot remove", path))
}
