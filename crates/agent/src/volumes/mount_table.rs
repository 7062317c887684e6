//! Mounting and unmounting, and reading what is mounted.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};

use super::VolumeError;

/// Mounts an empty tmpfs of at most `size` bytes. It is never swapped out if the kernel can guarantee that.
pub(super) fn mount_tmpfs(path: &Path, size: Option<u64>) -> Result<(), VolumeError> {
    let size = size.map(|bytes| format!("size={bytes}"));
    let with_noswap = [size.as_deref(), Some("noswap")].into_iter().flatten().collect::<Vec<_>>().join(",");
    match mount_fs("tmpfs", path, &with_noswap) {
        // Kernels before 6.4 do not support `noswap`.
        Err(Errno::INVAL) => mount_fs("tmpfs", path, size.as_deref().unwrap_or_default()),
        result => result,
    }
    .map_err(VolumeError::io("mount a tmpfs on", path))
}

/// Mounts huge pages of `page_size` bytes.
pub(super) fn mount_huge_pages(path: &Path, page_size: u64) -> Result<(), VolumeError> {
    mount_fs("hugetlbfs", path, &format!("pagesize={page_size}"))
        .map_err(VolumeError::io("mount huge pages on", path))
}

fn mount_fs(kind: &str, path: &Path, options: &str) -> Result<(), Errno> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount(kind, path, kind, MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())
}

/// Binds the file that `source` has open to `target`, whatever may have happened to its path since.
pub(super) fn bind(source: impl AsFd, target: &Path) -> Result<(), VolumeError> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(source, "", flags)
        .and_then(|tree| move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH))
        .map_err(VolumeError::io("bind to", target))
}

/// Makes the mount private: mounts made later propagate neither to it nor from it.
pub(super) fn make_private(path: &Path) -> Result<(), VolumeError> {
    mount_change(path, MountPropagationFlags::PRIVATE)
        .map_err(VolumeError::io("make the mount private at", path))
}

/// Makes the mount a slave: mounts made later elsewhere propagate to it, but none from it.
pub(super) fn make_slave(path: &Path) -> Result<(), VolumeError> {
    mount_change(path, MountPropagationFlags::DOWNSTREAM)
        .map_err(VolumeError::io("make the mount a slave at", path))
}

/// Detaches everything that is bound to `path`, with all mounts that came along below it. These are only copies of what
/// is mounted elsewhere, where it stays. Nothing is deleted by this, so it need not wait for anyone who still uses it.
pub(super) fn detach_all(path: &Path) -> Result<(), VolumeError> {
    while is_mount_point(path)? {
        mount_change(path, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .and_then(|()| unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH))
            .map_err(VolumeError::io("unmount", path))?;
    }
    Ok(())
}

/// Unmounts everything that is stacked on `path`. What is in use stays: retry later.
pub(super) fn unmount_all(path: &Path) -> Result<(), VolumeError> {
    while is_mount_point(path)? {
        match unmount(path, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::BUSY) => return Err(VolumeError::StillMounted(path.to_owned())),
            Err(error) => return Err(VolumeError::io("unmount", path)(error)),
        }
    }
    Ok(())
}

/// Whether something is mounted on `path`. A path that does not exist is not a mount point.
pub(super) fn is_mount_point(path: &Path) -> Result<bool, VolumeError> {
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, StatxFlags::TYPE) {
        Ok(stat) if stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        }
        // Kernels before 5.8 do not report this.
        Ok(_) => {
            let real = fs::canonicalize(path).map_err(VolumeError::io("stat", path))?;
            Ok(mount_points_below(&real)?.contains(&real))
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(VolumeError::io("stat", path)(error)),
    }
}

/// Returns all mount points at or below `path`, deepest first.
pub(super) fn mount_points_below(path: &Path) -> Result<Vec<PathBuf>, VolumeError> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = fs::read(TABLE).map_err(VolumeError::io("read", TABLE))?;
    let mut points: Vec<PathBuf> = parse(&table).filter(|point| point.starts_with(path)).collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    points.dedup();
    Ok(points)
}

fn parse(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').nth(4))
        .map(unescape)
}

/// Decodes a field: the table writes space, tab, newline and backslash as `\040` and the like.
fn unescape(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] if *first == b'\\' => {
                path.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = tail;
            }
            _ => {
                path.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = b"21 27 0:19 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            99 1 0:5 / /var/lib/with\\040space\\134and\\011tab rw - tmpfs tmpfs rw\n\
            bad\n";
        let points: Vec<PathBuf> = parse(table).collect();
        assert_eq!(points, [Path::new("/sys"), Path::new("/var/lib/with space\\and\ttab")]);
    }
}
