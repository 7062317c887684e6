//! `subPath`: a part of a volume. A container that can write to the volume may place links in the path, even during the
//! lookup. So a part is opened once, while the kernel guarantees that the lookup never leaves the volume, and the open
//! file is then bound to a place of the agent's own. Its path is never looked up again.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2, stat};
use rustix::io::Errno;

use super::{PreparedVolume, Propagation, VolumeError, layout, mount_table};

/// Opens `path` inside the volume. Missing folders are created with the mode of the volume, unless the agent writes the
/// volume: there, a missing folder is a mistake.
pub(super) fn open(name: &str, volume: &PreparedVolume, path: &str) -> Result<OwnedFd, VolumeError> {
    let escapes = || VolumeError::Escapes { volume: name.to_owned(), subpath: path.to_owned() };
    let parts: Vec<_> = Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
    if parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
        return Err(escapes());
    }
    let fail = |error: Errno| match error {
        Errno::XDEV | Errno::LOOP => escapes(),
        error => VolumeError::io("open", volume.path.join(path))(error),
    };

    let root = openat(CWD, &volume.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(fail)?;
    match open_beneath(&root, Path::new(path)) {
        Err(Errno::XDEV) => return open_by_host(&root, &volume.path, path).map_err(fail),
        Err(Errno::NOENT) if !volume.read_only => {}
        result => return result.map_err(fail),
    }

    // Without the sticky bit of a volume in memory: containers with different users share what is below.
    let mode = Mode::from_raw_mode(fstat(&root).map_err(fail)?.st_mode & 0o2777);
    let (existing, mut folder) = longest_existing(&root, &parts).map_err(fail)?;
    for part in &parts[existing..] {
        match mkdirat(&folder, part.as_os_str(), mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(fail(error)),
        }
        // A link may have been put where the folder was just created.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        folder = openat2(&folder, part.as_os_str(), flags, Mode::empty(), resolve).map_err(fail)?;
        rustix::fs::fchmod(&folder, mode).map_err(fail)?;
    }
    Ok(folder)
}

/// Opens a path, following links as long as they stay inside.
fn open_beneath(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Opens a path, resolving absolute links by the host's paths. Such a link leads out of the volume as written, but its
/// target on the host may be inside, as with tools that switch between releases. A target may change as soon as it is
/// known, so the resolved path is then opened without following any link.
fn open_by_host(root: impl AsFd, volume: &Path, path: &str) -> Result<OwnedFd, Errno> {
    let real = |path: &Path| fs::canonicalize(path).map_err(|_| Errno::XDEV);
    let (inside, volume) = (real(&volume.join(path))?, real(volume)?);
    let inside = inside.strip_prefix(&volume).map_err(|_| Errno::XDEV)?;
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, inside, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn longest_existing(root: &OwnedFd, parts: &[Component<'_>]) -> Result<(usize, OwnedFd), Errno> {
    for count in (1..parts.len()).rev() {
        match open_beneath(root, &parts[..count].iter().collect::<std::path::PathBuf>()) {
            Err(Errno::NOENT) => {}
            found => return found.map(|found| (count, found)),
        }
    }
    root.try_clone().map(|root| (0, root)).map_err(|_| Errno::MFILE)
}

/// Binds an open file to `target`, replacing what an earlier container had there, unless it is the same.
pub(super) fn bind(inside: OwnedFd, target: &Path, propagation: Propagation) -> Result<(), VolumeError> {
    let stat = fstat(&inside).map_err(VolumeError::io("stat", target))?;
    if !is_bound(&stat, target)? {
        mount_table::detach_all(target)?;
        make_place(FileType::from_raw_mode(stat.st_mode), target)?;
        mount_table::bind(inside, target)?;
    }
    match propagation {
        Propagation::Private => mount_table::make_private(target),
        Propagation::HostToContainer => mount_table::make_slave(target),
        Propagation::Bidirectional => Ok(()),
    }
}

/// Whether exactly this file is bound to `target`.
fn is_bound(wanted: &Stat, target: &Path) -> Result<bool, VolumeError> {
    if !mount_table::is_mount_point(target)? {
        return Ok(false);
    }
    let bound = stat(target).map_err(VolumeError::io("stat", target))?;
    Ok((bound.st_dev, bound.st_ino) == (wanted.st_dev, wanted.st_ino))
}

/// Creates something that a file of this type can be bound to.
fn make_place(kind: FileType, target: &Path) -> Result<(), VolumeError> {
    if let Some(parent) = target.parent() {
        layout::create_directory(parent, 0o750)?;
    }
    let is_folder = kind.is_dir();
    if target.is_dir() != is_folder && target.exists() {
        let remove = if is_folder { fs::remove_file(target) } else { fs::remove_dir(target) };
        remove.map_err(VolumeError::io("remove", target))?;
    }
    if is_folder {
        layout::create_directory(target, 0o750)?;
    } else if !target.exists() {
        fs::write(target, []).map_err(VolumeError::io("create", target))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
