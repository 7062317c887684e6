//! The root file system, mounted where only the container will ever see it.
//!
//! The helper first leaves the host's mount namespace. What it mounts is inherited by the container's namespace and
//! disappears with that: the host's mount table never shows a container, and nothing can leak.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, unmount,
};

use super::settings::{RootfsPlan, Settings};
use crate::embedded::error::{Error, Result};
use crate::embedded::mountinfo;
use crate::image;
use crate::image::rootfs::{Kind, Rootfs, RootfsError};

/// The mount point of the root, in the container's folder.
pub(crate) const ROOTFS: &str = "rootfs";
/// The writable layer.
pub(crate) const UPPER: &str = "upper";
/// The folder for what a container of the built-in image writes to its private folders.
pub(crate) const SCRATCH: &str = "scratch";

/// Enters a new mount namespace and assembles the root file system there.
pub(super) fn enter(settings: &Settings) -> Result<()> {
    leave()?;
    let folder = std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
    if settings.shared_mounts {
        // Volumes that propagate back must stay peers of the host's mounts; only the folder that we mount into must
        // not. The runtime has made that folder a mount of its own, so this affects nothing else.
        change(&containing_mount(&folder)?, MountPropagationFlags::PRIVATE)?;
    } else {
        change(Path::new("/"), MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    }
    if settings.cgroup.is_empty() {
        stand_in_for_cgroups()?;
    }
    match &settings.rootfs {
        RootfsPlan::Host(options) => mounted(image::rootfs::mount_host(&folder, options)).map(drop),
        RootfsPlan::Layers(layers) => {
            // Lowest first for mounting, topmost first in the plan.
            let layers: Vec<PathBuf> = layers.iter().rev().cloned().collect();
            let root = mounted(image::rootfs::mount_layers(&layers, &folder))?;
            if root.kind == Kind::Copy {
                image::rootfs::forbid_devices(&root.path).map_err(|error| Error::State(error.to_string()))?;
            }
            has_no_link_for_devices(&folder.join(ROOTFS))
        }
        RootfsPlan::Empty => {
            make_dirs(&[ROOTFS])?;
            tmpfs(Path::new(ROOTFS), "mode=755,size=64k")
        }
    }
}

fn leave() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| Error::io("leave the host's mount namespace", errno))
}

/// Hides the host's control groups, where none of them are ours: the container library must not find any to write to.
/// With a single read-only hierarchy it leaves processes where they are, with anything else it fails. Only this process
/// and the library in it see this mount; a container gets a `/sys` of its own.
fn stand_in_for_cgroups() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWCGROUP)
        .map_err(|errno| Error::io("leave the host's control groups", errno))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", flags, None)
        .map_err(|errno| Error::io("mount control groups read-only", errno))
}

fn mounted(outcome: std::result::Result<Rootfs, RootfsError>) -> Result<Rootfs> {
    outcome.map_err(|error| Error::State(error.to_string()))
}

/// Rejects a root whose `/dev` is a link. The container library creates links in this folder by a path of the host,
/// before the container has a root: it would create them wherever that link leads on the host.
fn has_no_link_for_devices(root: &Path) -> Result<()> {
    match fs::symlink_metadata(root.join("dev")) {
        Ok(found) if !found.is_dir() => Err(Error::State(
            "/dev in the image is not a folder, as the runtime needs it to be; build the image without it"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// Mounts a file system in memory, in this process's mount namespace.
pub(super) fn tmpfs(target: &Path, options: &str) -> Result<()> {
    let options =
        std::ffi::CString::new(options).map_err(|_| Error::Internal("an option contains NUL".to_owned()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", target, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|errno| Error::io(format!("mount a tmpfs at {}", target.display()), errno))
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
        .ok_or_else(|| Error::Internal(format!("no mount contains {}", path.display())))
}

/// Makes a folder a private mount of its own: mounts below it stay where they are made.
pub(crate) fn make_private_mount(path: &Path) -> Result<()> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    if !mountinfo::parse(&text).iter().any(|mount| mount.point == path) {
        mount_bind_recursive(path, path)
            .map_err(|errno| Error::io(format!("bind {}", path.display()), errno))?;
    }
    change(path, MountPropagationFlags::PRIVATE)
}

/// Undoes [`make_private_mount`], if the folder is a mount.
pub(crate) fn undo_private_mount(path: &Path) -> Result<()> {
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // It is not a mount, does not exist, or we have no right to unmount, so nothing can have been mounted there.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => Ok(()),
        Err(errno) => Err(Error::io(format!("unmount {}", path.display()), errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_the_devices_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dev = root.path().join("dev");
        assert!(has_no_link_for_devices(root.path()).is_ok(), "it is made");
        fs::create_dir(&dev).unwrap();
        assert!(has_no_link_for_devices(root.path()).is_ok());
        fs::remove_dir(&dev).unwrap();
        // A link to a folder is rejected as well.
        std::os::unix::fs::symlink("/tmp", &dev).unwrap();
        assert!(has_no_link_for_devices(root.path()).is_err());
    }
}
