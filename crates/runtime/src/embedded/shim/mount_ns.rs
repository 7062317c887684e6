//! The root file system, mounted where only the container will ever see it.
//!
//! The helper leaves the host's mount namespace first. What it mounts goes into the container's namespace by
//! inheritance and disappears with it: the host's mount table never shows a container, and nothing can leak.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

use super::settings::{RootfsPlan, Settings};
use crate::embedded::error::{Error, Result};
use crate::embedded::mountinfo;

/// Where the root is mounted, in the container's folder.
pub(crate) const ROOTFS: &str = "rootfs";
/// The writable layer.
pub(crate) const UPPER: &str = "upper";
const SCRATCH: &str = "scratch";

/// Enters a mount namespace of its own and puts the root file system together there.
pub(super) fn enter(settings: &Settings) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| Error::io("leave the host's mount namespace", errno))?;
    let folder = std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
    if settings.shared_mounts {
        // Volumes that spread back must stay peers of the host's mounts; only the folder that we mount into must not.
        // The runtime has made it a mount of its own, so this touches nothing else.
        change(&containing_mount(&folder)?, MountPropagationFlags::PRIVATE)?;
    } else {
        change(Path::new("/"), MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    }
    match &settings.rootfs {
        RootfsPlan::Host => host(&folder),
        RootfsPlan::Layers(layers) => {
            // Lowest first there, topmost first here.
            let layers: Vec<PathBuf> = layers.iter().rev().cloned().collect();
            let mounted = crate::image::rootfs::mount_layers(&layers, &folder);
            mounted.map(drop).map_err(|error| Error::State(error.to_string()))
        }
        RootfsPlan::Empty => {
            make_dirs(&[ROOTFS])?;
            tmpfs(Path::new(ROOTFS), "mode=755,size=64k")
        }
    }
}

/// The host's root with a scratch layer on top, so that mount points can be made where the host has none.
fn host(folder: &Path) -> Result<()> {
    make_dirs(&[ROOTFS, SCRATCH])?;
    tmpfs(Path::new(SCRATCH), "mode=755,size=16m")?;
    make_dirs(&["scratch/upper", "scratch/work"])?;
    let options = Some(c"lowerdir=/,upperdir=scratch/upper,workdir=scratch/work");
    if mount("overlay", ROOTFS, "overlay", MountFlags::empty(), options).is_err() {
        // Some file systems cannot be a layer. A plain view works too; only mount points must then exist.
        mount_bind("/", ROOTFS).map_err(|errno| Error::io("bind the host's root", errno))?;
    }
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    for source in mountinfo::host_volumes(&mountinfo::parse(&text), folder) {
        let inside = Path::new(ROOTFS).join(source.strip_prefix("/").unwrap_or(&source));
        // A mount that cannot be shown is like one that is not there: the image promises the host's root, no more.
        if inside.exists() && mount_bind(&source, &inside).is_ok() {
            remount_readonly(&inside)?;
        }
    }
    // Other containers' files are nobody's business. The data folder is two above a container's.
    if let Some(data) = folder.parent().and_then(Path::parent) {
        let inside = Path::new(ROOTFS).join(data.strip_prefix("/").unwrap_or(data));
        if inside.is_dir() {
            tmpfs(&inside, "mode=700,size=4k")?;
        }
    }
    Ok(())
}

fn tmpfs(target: &Path, options: &str) -> Result<()> {
    let options =
        std::ffi::CString::new(options).map_err(|_| Error::Internal("an option contains NUL".to_owned()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", target, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|errno| Error::io(format!("mount a tmpfs at {}", target.display()), errno))
}

fn remount_readonly(target: &Path) -> Result<()> {
    mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "")
        .map_err(|errno| Error::io(format!("make {} read-only", target.display()), errno))
}

fn change(target: &Path, flags: MountPropagationFlags) -> Result<()> {
    mount_change(target, flags)
        .map_err(|errno| Error::io(format!("isolate mounts below {}", target.display()), errno))
}

fn make_dirs(paths: &[&str]) -> Result<()> {
    for path in paths {
        fs::create_dir_all(path).map_err(|error| Error::io(format!("create {path}"), error))?;
    }
    Ok(())
}

fn containing_mount(path: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    mountinfo::containing(&mountinfo::parse(&text), path)
        .map(|mount| mount.point.clone())
        .ok_or_else(|| Error::Internal(format!("{} is on no mount", path.display())))
}

/// Makes a folder a mount of its own that shares nothing with others: mounts below it stay where they are made.
pub(crate) fn make_private_mount(path: &Path) -> Result<()> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    if !mountinfo::parse(&text).iter().any(|mount| mount.point == path) {
        mount_bind_recursive(path, path)
            .map_err(|errno| Error::io(format!("bind {}", path.display()), errno))?;
    }
    change(path, MountPropagationFlags::PRIVATE)
}
