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
const WORK: &str = "work";
const SCRATCH: &str = "scratch";

/// Enters a mount namespace of its own and puts the root file system together there.
pub(super) fn enter(settings: &Settings) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| Error::io("leave the host's mount namespace", errno))?;
    if settings.shared_mounts {
        // Volumes that spread back must stay peers of the host's mounts; only the folder that we mount into must not.
        // The runtime has made it a mount of its own, so this touches nothing else.
        let folder =
            std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
        let holder = containing_mount(&folder)?;
        change(&holder, MountPropagationFlags::PRIVATE)?;
    } else {
        change(Path::new("/"), MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    }
    fs::create_dir_all(ROOTFS).map_err(|error| Error::io("create the root's folder", error))?;
    match &settings.rootfs {
        RootfsPlan::Host => host(),
        RootfsPlan::Layers(layers) => {
            make_dirs(&[UPPER, WORK])?;
            overlay(layers, UPPER, WORK)
        }
        RootfsPlan::Empty => tmpfs(ROOTFS, "mode=755,size=64k"),
    }
}

/// The host's root with a scratch layer on top, so that mount points can be made where the host has none.
fn host() -> Result<()> {
    make_dirs(&[SCRATCH])?;
    tmpfs(SCRATCH, "mode=755,size=16m")?;
    let (upper, work) = (format!("{SCRATCH}/{UPPER}"), format!("{SCRATCH}/{WORK}"));
    make_dirs(&[&upper, &work])?;
    match overlay(&[PathBuf::from("/")], &upper, &work) {
        Ok(()) => {}
        Err(_) => {
            // Some file systems cannot be a layer. A plain view works too; only mount points must then exist.
            mount_bind("/", ROOTFS).map_err(|errno| Error::io("bind the host's root", errno))?;
        }
    }
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    let folder = std::env::current_dir().map_err(|error| Error::io("find the container's folder", error))?;
    for source in mountinfo::host_volumes(&mountinfo::parse(&text), &folder) {
        let inside = Path::new(ROOTFS).join(source.strip_prefix("/").unwrap_or(&source));
        // A mount that cannot be shown is like one that is not there: the image promises the host's root, no more.
        if inside.exists() && mount_bind(&source, &inside).is_ok() {
            remount_readonly(&inside)?;
        }
    }
    Ok(())
}

fn overlay(lower: &[PathBuf], upper: &str, work: &str) -> Result<()> {
    let lower: Vec<String> = lower.iter().map(|path| escape(&path.to_string_lossy())).collect();
    let options = format!("lowerdir={},upperdir={upper},workdir={work}", lower.join(":"));
    let options =
        std::ffi::CString::new(options).map_err(|_| Error::Internal("a path contains NUL".to_owned()))?;
    mount("overlay", ROOTFS, "overlay", MountFlags::empty(), Some(options.as_c_str()))
        .map_err(|errno| Error::io("mount the root file system", errno))
}

/// Overlay's options separate layers by colons.
fn escape(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,")
}

fn tmpfs(target: &str, options: &str) -> Result<()> {
    let options =
        std::ffi::CString::new(options).map_err(|_| Error::Internal("an option contains NUL".to_owned()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", target, "tmpfs", flags, Some(options.as_c_str()))
        .map_err(|errno| Error::io(format!("mount a tmpfs at {target}"), errno))
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

#[cfg(test)]
mod tests {
    #[test]
    fn separators_in_layer_paths_are_escaped() {
        assert_eq!(super::escape("/a:b,c\\d"), "/a\\:b\\,c\\\\d");
    }
}
