//! The root filesystem of the built-in image: the host's own, read-only, with private `/tmp`, `/run` and `/var/tmp`,
//! which are writable unless everything is to be read-only.
//!
//! This is not one recursive bind of `/`: that would contain the roots of all other containers, each of which contains
//! all others. Instead, the filesystems that make up the host's root are bound one by one ([`super::mountinfo`] chooses
//! them).
//!
//! A mount point that the host lacks cannot be created in a read-only root. The directory that lacks it is then
//! rebuilt: an empty directory with the entries of the real one bound into it, and room for one more.
//!
//! Every target is opened inside the new root with `RESOLVE_IN_ROOT` and mounted on through its descriptor. By path, a
//! link such as `/var/tmp -> /tmp` would lead out to the host's own `/tmp`, and the private one would cover it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::mountinfo;
use super::{MountPoint, Options, RootfsError};

/// The private directories, with their names in the scratch directory and their modes.
const PRIVATE: [(&str, &str, u32); 3] =
    [("/tmp", "tmp", 0o1777), ("/run", "run", 0o755), ("/var/tmp", "var-tmp", 0o1777)];

/// Where a container mounts filesystems of its own; what is below need not exist on the host.
const FILLED_LATER: [&str; 3] = ["/proc", "/sys", "/dev"];

const MAX_ENTRIES: usize = 4096;

/// The directories to rebuild, each with the entries that it must have and the host lacks.
type Rebuilt = BTreeMap<PathBuf, Vec<MountPoint>>;

pub(super) fn mount(root: &Path, scratch: &Path, options: &Options) -> Result<(), RootfsError> {
    let rebuilt = missing(&options.mount_points)?;
    let table = fs::read("/proc/self/mountinfo")
        .map_err(RootfsError::io("cannot read", Path::new("/proc/self/mountinfo")))?;
    let points = mountinfo::part_of_root(&mountinfo::parse(&table), &options.hide, Path::is_file);
    let builder = Builder { root, scratch, points: &points };
    match rebuilt.get(Path::new("/")) {
        Some(wanted) => builder.rebuild(Path::new("/"), wanted)?,
        None => {
            bind(Path::new("/"), root).map_err(refused)?;
            seal(root)?;
        }
    }
    let mut steps: Vec<(usize, &Path, Option<&Vec<MountPoint>>)> = points
        .iter()
        .map(|point| (point.components().count(), point.as_path(), None))
        .chain(rebuilt.iter().map(|(dir, wanted)| (dir.components().count(), dir.as_path(), Some(wanted))))
        .filter(|(_, path, _)| *path != Path::new("/"))
        .collect();
    // Parents first; at the same path, the filesystem before the directory that is rebuilt on it.
    steps.sort_by_key(|(depth, path, wanted)| (*depth, *path, wanted.is_some()));
    for (_, path, wanted) in steps {
        match wanted {
            Some(wanted) => builder.rebuild(path, wanted)?,
            None => builder.show(path)?,
        }
    }
    for (path, name, mode) in PRIVATE {
        builder.private(Path::new(path), name, mode)?;
    }
    if options.read_only {
        builder.make_room(&options.mount_points)?;
        for (path, ..) in PRIVATE {
            builder.seal_private(Path::new(path))?;
        }
    }
    for path in &options.hide {
        builder.hide(path)?;
    }
    Ok(())
}

/// Finds the mount points that the host lacks, grouped by the nearest directory that exists.
fn missing(wanted: &[MountPoint]) -> Result<Rebuilt, RootfsError> {
    let host = open_root(Path::new("/")).map_err(RootfsError::io("cannot open", Path::new("/")))?;
    let private = PRIVATE.iter().map(|(path, ..)| MountPoint::Dir(PathBuf::from(path)));
    let mut rebuilt = Rebuilt::new();
    for point in private.chain(wanted.iter().cloned()) {
        let path = point.path();
        let error = |source: io::Error| RootfsError::MountPoint { wanted: path.to_owned(), source };
        let mut parts = Vec::new();
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => parts.push(name),
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(error(io::ErrorKind::InvalidInput.into()));
                }
            }
        }
        // From the whole path upwards to the first part that exists.
        for depth in (0..=parts.len()).rev() {
            let existing: PathBuf = parts[..depth].iter().collect();
            let flags = if depth < parts.len() { OFlags::DIRECTORY } else { OFlags::empty() };
            match open_in(&host, &existing, flags) {
                Ok(_) if depth == parts.len() => break,
                Ok(dir) => {
                    let dir = real_path(&dir).map_err(error)?;
                    let provided = PRIVATE.iter().map(|(path, ..)| *path).chain(FILLED_LATER);
                    if !provided.into_iter().any(|made| dir.starts_with(made)) {
                        let rest: PathBuf = parts[depth..].iter().collect();
                        rebuilt.entry(dir).or_default().push(point.with_path(rest));
                    }
                    break;
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(error(errno.into())),
            }
        }
    }
    Ok(rebuilt)
}

impl MountPoint {
    fn path(&self) -> &Path {
        match self {
            Self::Dir(path) | Self::File(path) => path,
        }
    }

    fn with_path(&self, path: PathBuf) -> Self {
        match self {
            Self::Dir(_) => Self::Dir(path),
            Self::File(_) => Self::File(path),
        }
    }
}

impl MountPoint {
    fn make(&self, parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        match self {
            Self::Dir(_) => make_dir(parent, name),
            Self::File(_) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
            }
        }
    }
}

fn make_dir(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))
}

struct Builder<'a> {
    root: &'a Path,
    scratch: &'a Path,
    /// The mount points of the host that belong to its root.
    points: &'a [PathBuf],
}

impl Builder<'_> {
    /// Opens a place in the new root. The returned path goes through the descriptor, which must be kept as long as it
    /// is used.
    fn place(&self, path: &Path) -> Result<Option<(OwnedFd, PathBuf)>, RootfsError> {
        let root = open_root(self.root).map_err(RootfsError::io("cannot open", self.root))?;
        match open_in(&root, path.strip_prefix("/").unwrap_or(path), OFlags::empty()) {
            Ok(fd) => {
                let through = by_descriptor(&fd);
                Ok(Some((fd, through)))
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(RootfsError::io("cannot open", path)(errno)),
        }
    }

    /// Makes the filesystem that the host has mounted here visible.
    fn show(&self, path: &Path) -> Result<(), RootfsError> {
        let Some((_fd, target)) = self.place(path)? else { return Ok(()) };
        match bind(path, &target) {
            Ok(()) => {}
            // It may have been unmounted since the table was read.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(refused(errno)),
        }
        let (_fd, mounted) = self.place(path)?.ok_or_else(|| vanished(path))?;
        seal(&mounted)
    }

    /// Mounts a writable directory of the container's own here.
    fn private(&self, path: &Path, name: &str, mode: u32) -> Result<(), RootfsError> {
        let Some((_fd, target)) = self.place(path)? else { return Ok(()) };
        let own = self.scratch.join(name);
        fs::create_dir_all(&own).map_err(RootfsError::io("cannot create", &own))?;
        fs::set_permissions(&own, fs::Permissions::from_mode(mode))
            .map_err(RootfsError::io("cannot set the mode of", &own))?;
        bind(&own, &target).map_err(refused)?;
        let (_fd, mounted) = self.place(path)?.ok_or_else(|| vanished(path))?;
        rustix::mount::mount_change(&mounted, MountPropagationFlags::PRIVATE).map_err(refused)?;
        restrict(&mounted, MountFlags::NODEV | MountFlags::NOSUID)
    }

    fn seal_private(&self, path: &Path) -> Result<(), RootfsError> {
        let Some((_fd, mounted)) = self.place(path)? else { return Ok(()) };
        restrict(&mounted, MountFlags::RDONLY)
    }

    /// Creates the mount points in private directories, which is no longer possible once these are read-only.
    fn make_room(&self, points: &[MountPoint]) -> Result<(), RootfsError> {
        let root = open_root(self.root).map_err(RootfsError::io("cannot open", self.root))?;
        for point in points {
            let failed = |errno: Errno| RootfsError::io("cannot create", point.path())(errno);
            let mut so_far = PathBuf::new();
            let mut parts =
                point.path().components().filter(|part| matches!(part, Component::Normal(_))).peekable();
            let mut parent = open_in(&root, &so_far, OFlags::empty()).map_err(failed)?;
            while let Some(part) = parts.next() {
                so_far.push(part);
                let made = match open_in(&root, &so_far, OFlags::empty()) {
                    Ok(found) => {
                        parent = found;
                        continue;
                    }
                    Err(Errno::NOENT) if parts.peek().is_none() => point.make(&parent, part.as_os_str()),
                    Err(Errno::NOENT) => make_dir(&parent, part.as_os_str()),
                    Err(errno) => Err(errno),
                };
                match made {
                    Ok(()) => parent = open_in(&root, &so_far, OFlags::empty()).map_err(failed)?,
                    // Not in a directory of ours: either the container fills it later, or what is missing was made
                    // there before.
                    Err(Errno::ROFS | Errno::NOENT | Errno::NOTDIR | Errno::PERM | Errno::ACCESS) => break,
                    Err(errno) => return Err(failed(errno)),
                }
            }
        }
        Ok(())
    }

    /// Covers this directory with an empty one.
    fn hide(&self, path: &Path) -> Result<(), RootfsError> {
        let Some((_fd, target)) = self.place(path)? else { return Ok(()) };
        let nothing = self.scratch.join("nothing");
        fs::create_dir_all(&nothing).map_err(RootfsError::io("cannot create", &nothing))?;
        bind(&nothing, &target).map_err(refused)?;
        let (_fd, mounted) = self.place(path)?.ok_or_else(|| vanished(path))?;
        seal(&mounted)
    }

    /// Replaces this directory with one of our own that has the same entries, and the wanted ones that it lacks.
    fn rebuild(&self, dir: &Path, wanted: &[MountPoint]) -> Result<(), RootfsError> {
        let name = dir.to_string_lossy().replace('%', "%25").replace('/', "%");
        let own = self.scratch.join("rebuilt").join(name);
        fs::create_dir_all(&own).map_err(RootfsError::io("cannot create", &own))?;
        let target = if dir == Path::new("/") {
            self.root.to_owned()
        } else {
            let Some((fd, _)) = self.place(dir)? else { return Err(vanished(dir)) };
            real_path(&fd).map_err(RootfsError::io("cannot find", dir))?
        };
        let entries: Vec<fs::DirEntry> =
            fs::read_dir(dir).and_then(Iterator::collect).map_err(RootfsError::io("cannot list", dir))?;
        if entries.len() > MAX_ENTRIES {
            return Err(RootfsError::CrowdedParent {
                wanted: dir.join(wanted[0].path()),
                parent: dir.to_owned(),
                limit: MAX_ENTRIES,
            });
        }
        let mut bound = Vec::new();
        for entry in &entries {
            let at = own.join(entry.file_name());
            let kind = entry.file_type().map_err(RootfsError::io("cannot stat", &entry.path()))?;
            let made = if kind.is_symlink() {
                fs::read_link(entry.path()).and_then(|link| std::os::unix::fs::symlink(link, &at))
            } else if kind.is_dir() {
                let foreign = super::is_mount_point(&entry.path())? && !self.points.contains(&entry.path());
                if !foreign {
                    bound.push(entry.file_name());
                }
                fs::create_dir(&at)
            } else {
                bound.push(entry.file_name());
                fs::File::create(&at).map(drop)
            };
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(RootfsError::io("cannot create", &at)(error));
                }
                _ => {}
            }
        }
        for point in wanted {
            let at = own.join(point.path());
            let made = match point {
                MountPoint::Dir(_) => fs::create_dir_all(&at),
                MountPoint::File(_) => at
                    .parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| fs::OpenOptions::new().append(true).create(true).open(&at).map(drop)),
            };
            made.map_err(RootfsError::io("cannot create", &at))?;
        }
        let real = fs::metadata(dir).map_err(RootfsError::io("cannot stat", dir))?;
        fs::set_permissions(&own, fs::Permissions::from_mode(real.mode() & 0o7777))
            .and_then(|()| std::os::unix::fs::chown(&own, Some(real.uid()), Some(real.gid())).or(Ok(())))
            .map_err(RootfsError::io("cannot set the mode of", &own))?;
        bind(&own, &target).map_err(refused)?;
        rustix::mount::mount_change(&target, MountPropagationFlags::PRIVATE).map_err(refused)?;
        for name in bound {
            let (from, to) = (dir.join(&name), target.join(&name));
            match bind(&from, &to) {
                Ok(()) => seal(&to)?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        seal(&target)
    }
}

/// Makes a bind mount without what is mounted below the source.
fn bind(source: &Path, target: &Path) -> Result<(), Errno> {
    match rustix::mount::mount_bind(source, target) {
        // In a user namespace, the machine's mounts must not be uncovered: the bind takes all of them along, or fails.
        Err(Errno::INVAL) => bind_with_locked(source, target),
        other => other,
    }
}

/// Makes a bind mount with everything mounted below the source, then unmounts what may be unmounted there (such as the
/// roots of other containers), and makes the rest read-only.
fn bind_with_locked(source: &Path, target: &Path) -> Result<(), Errno> {
    let io_errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let real = fs::canonicalize(target).map_err(io_errno)?;
    rustix::mount::mount_bind_recursive(source, target)?;
    // Before anything is unmounted, since it would otherwise be unmounted on the host as well.
    rustix::mount::mount_change(&real, MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let below = || -> Result<Vec<PathBuf>, Errno> {
        let table = fs::read("/proc/self/mountinfo").map_err(io_errno)?;
        let points = mountinfo::parse(&table).into_iter().map(|mount| mount.point);
        Ok(points.filter(|point| *point != real && point.starts_with(&real)).collect())
    };
    for point in below()?.iter().rev() {
        // Locked mounts stay; others may already have gone together with a mount below them.
        let _ = rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    for point in below()? {
        match remount(&point, MountFlags::RDONLY | MountFlags::NODEV) {
            // It is covered by another mount, and so out of reach for the container too.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Makes a new bind private and read-only. Private first: whatever is mounted on it from now on would otherwise appear
/// on the host as well.
fn seal(mounted: &Path) -> Result<(), RootfsError> {
    rustix::mount::mount_change(mounted, MountPropagationFlags::PRIVATE).map_err(refused)?;
    restrict(mounted, MountFlags::RDONLY | MountFlags::NODEV)
}

/// Adds these flags to those of the mount: in a user namespace, the kernel does not allow dropping any.
fn restrict(mounted: &Path, more: MountFlags) -> Result<(), RootfsError> {
    remount(mounted, more).map_err(refused)
}

/// Adds these flags to those of the mount.
pub(super) fn remount(mounted: &Path, more: MountFlags) -> Result<(), Errno> {
    let has = rustix::fs::statvfs(mounted)?.f_flag;
    let mut flags = MountFlags::BIND | more;
    for (is, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
    ] {
        if has.contains(is) {
            flags |= flag;
        }
    }
    rustix::mount::mount_remount(mounted, flags, "")
}

fn refused(errno: Errno) -> RootfsError {
    RootfsError::MountRefused { source: errno.into() }
}

fn vanished(path: &Path) -> RootfsError {
    RootfsError::io("cannot open", path)(Errno::NOENT)
}

fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open_in(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve)
}

fn by_descriptor(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn real_path(fd: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(by_descriptor(fd))
}
