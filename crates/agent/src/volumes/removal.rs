//! Deletes what a pod leaves behind, and nothing else. Containers may have left anything in their volumes: links to the
//! host, folders a thousand levels deep, mounts. Links are deleted and never followed, and the kernel is instructed
//! never to cross a mount.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags, openat, openat2, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::mount_table::{detach_all, mount_points_below, unmount_all};
use super::{PodDirectory, VolumeError};

/// How deep a folder may be before it is moved up to be emptied, so that neither file descriptors nor the stack run
/// out.
const DEEPEST: usize = 32;

/// Unmounts the agent's mounts and deletes the pod's folder.
pub(super) fn remove_pod(directory: &PodDirectory) -> Result<(), VolumeError> {
    match unmounted(directory)? {
        Some(root) => remove_tree(&root),
        None => Ok(()),
    }
}

/// Unmounts the agent's mounts and deletes the pod's volumes, with the plugins' data about them.
pub(super) fn remove_volumes(directory: &PodDirectory) -> Result<(), VolumeError> {
    if unmounted(directory)?.is_none() {
        return Ok(());
    }
    [directory.subpaths(), directory.volumes(), directory.plugins()]
        .iter()
        .try_for_each(|path| remove_tree(path))
}

/// Unmounts everything below the pod's folder, and returns the folder's real path; `None` if it does not exist.
fn unmounted(directory: &PodDirectory) -> Result<Option<PathBuf>, VolumeError> {
    // The mount table contains real paths.
    let root = match fs::canonicalize(directory.path()) {
        Ok(root) => root,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(VolumeError::io("stat", directory.path())(error)),
    };
    for point in mount_points_below(&root)? {
        match point.strip_prefix(&root).ok().and_then(OurMount::at) {
            Some(OurMount::Volume) => unmount_all(&point)?,
            Some(OurMount::Part) => detach_all(&point)?,
            None => {}
        }
    }
    if let Some(foreign) = mount_points_below(&root)?.pop() {
        return Err(VolumeError::StillMounted(foreign));
    }
    Ok(Some(root))
}

/// Unmounts and deletes one volume.
pub(super) fn remove_volume(path: &Path) -> Result<(), VolumeError> {
    unmount_all(path)?;
    remove_tree(path)
}

/// The agent's own mounts in the folder of a pod.
#[derive(Debug, PartialEq, Eq)]
enum OurMount {
    /// `volumes/<plugin>/<name>`
    Volume,
    /// `volume-subpaths/<volume>/<container>/<index>`
    Part,
}

impl OurMount {
    fn at(inside: &Path) -> Option<Self> {
        let parts: Vec<&OsStr> = inside.components().map(Component::as_os_str).collect();
        match parts[..] {
            [top, _, _] if top == "volumes" => Some(Self::Volume),
            [top, _, _, _] if top == "volume-subpaths" => Some(Self::Part),
            _ => None,
        }
    }
}

/// Deletes a folder with everything in it, or nothing if anything is mounted inside.
pub(crate) fn remove_tree(path: &Path) -> Result<(), VolumeError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(VolumeError::Path { path: path.display().to_string(), why: "it has no parent folder" });
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat(CWD, parent, flags, Mode::empty()).map_err(VolumeError::io("open", parent))?;
    let name = CString::new(name.as_bytes()).map_err(|_| VolumeError::io("remove", path)(Errno::INVAL))?;
    match open_folder(&parent, &name, path) {
        Ok(root) => {
            let mut removal = Removal { root: &root, moved: 0 };
            removal.empty(&root, path, 0)?;
            unlinkat(&parent, &name, AtFlags::REMOVEDIR).map_err(VolumeError::io("remove", path))
        }
        Err(VolumeError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

struct Removal<'a> {
    root: &'a OwnedFd,
    moved: u64,
}

impl Removal<'_> {
    fn empty(&mut self, folder: &OwnedFd, path: &Path, depth: usize) -> Result<(), VolumeError> {
        // Repeat until nothing is found: folders are moved up to the root while it is being read.
        loop {
            let mut found_something = false;
            for entry in Dir::read_from(folder).map_err(VolumeError::io("read", path))? {
                let entry = entry.map_err(VolumeError::io("read", path))?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                found_something = true;
                self.remove_entry(folder, name, &path.join(OsStr::from_bytes(name.to_bytes())), depth)?;
            }
            if !found_something {
                return Ok(());
            }
        }
    }

    fn remove_entry(
        &mut self,
        folder: &OwnedFd,
        name: &CStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), VolumeError> {
        // Some kernels return EPERM for a folder, and all of them do for an immutable file.
        let why_not = match unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(error @ (Errno::ISDIR | Errno::PERM)) => error,
            Err(error) => return Err(VolumeError::io("remove", path)(error)),
        };
        if depth >= DEEPEST {
            return self.move_up(folder, name, path);
        }
        let inner = match open_folder(folder, name, path) {
            Err(VolumeError::Io { source, .. }) if source.kind() == ErrorKind::NotADirectory => {
                return Err(VolumeError::io("remove", path)(why_not));
            }
            opened => opened?,
        };
        self.empty(&inner, path, depth + 1)?;
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(VolumeError::io("remove", path)(error)),
        }
    }

    fn move_up(&mut self, folder: &OwnedFd, name: &CStr, path: &Path) -> Result<(), VolumeError> {
        loop {
            self.moved += 1;
            let free = format!("..removing-{}", self.moved);
            match renameat_with(folder, name, self.root, &free, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(Errno::BUSY | Errno::XDEV) => return Err(VolumeError::StillMounted(path.to_owned())),
                Err(error) => return Err(VolumeError::io("remove", path)(error)),
            }
        }
    }
}

/// Opens an actual folder: neither behind a link nor on another mount.
fn open_folder(parent: impl AsFd, name: &CStr, path: &Path) -> Result<OwnedFd, VolumeError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), resolve).map_err(|error| match error {
        Errno::XDEV => VolumeError::StillMounted(PathBuf::from(path)),
        error => VolumeError::io("open", path)(error),
    })
}

#[cfg(test)]
mod tests;
