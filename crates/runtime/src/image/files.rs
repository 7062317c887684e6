//! The few file operations that the store's safety rests on: atomic replacement, locks, removal of trees.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Replaces the file at this path atomically: a reader, also one after a crash, sees either the old file or the new
/// one. The caller holds the store's lock, which is why one temporary name is enough.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Makes the entries of this directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes everything on this directory's filesystem durable: one call for a whole tree of new files.
pub(crate) fn sync_filesystem(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Returns how many bytes we may still write on the filesystem of this file or directory.
pub(crate) fn free_bytes(file: impl AsFd) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Creates the directory and its parents. New ones are accessible to the owner only.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Waits for the exclusive lock on this file, which is created if missing. Dropping the file releases the lock.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Takes the exclusive lock on this file or directory, unless somebody else holds it.
pub(crate) fn try_lock(file: File) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes whatever is at this path, if anything. A mount point inside is an error and is never entered: what is
/// mounted there may be the host's own root.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = match rustix::fs::openat(CWD, parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    use std::os::unix::ffi::OsStrExt as _;
    let name = CString::new(name.as_bytes())?;
    remove_at(parent.as_fd(), &name)
}

/// The depth from which directories are moved up before they are emptied. Whoever made the tree chose its depth, and
/// neither descriptors nor the stack may run out.
const DEEPEST: usize = 32;

/// Removes this entry of this directory, with everything below it.
pub(crate) fn remove_at(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let Some(top) = remove_or_open(dir, name)? else { return Ok(()) };
    let mut removal = Removal { top: top.as_fd(), moved: 0 };
    // Repeated until it finds nothing, since directories are moved up here while this one is being read.
    while removal.empty(top.as_fd(), 0)? {}
    remove_empty(dir, name)
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    moved: u64,
}

impl Removal<'_> {
    /// Removes the contents of a directory, and returns whether there were any.
    fn empty(&mut self, dir: BorrowedFd<'_>, depth: usize) -> io::Result<bool> {
        let (mut found, mut writable) = (false, false);
        // Not `read_from`, which opens the directory again, for which we may lack permission. A duplicate shares its
        // position, hence the rewind.
        let mut entries = Dir::new(dir.try_clone_to_owned()?)?;
        entries.rewind();
        for entry in entries {
            let entry = entry?;
            let child = entry.file_name();
            if child == c"." || child == c".." {
                continue;
            }
            found = true;
            match self.remove(dir, child, depth) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !writable => {
                    writable = true;
                    rustix::fs::fchmod(dir, Mode::RWXU)?;
                    self.remove(dir, child, depth)?;
                }
                other => other?,
            }
        }
        Ok(found)
    }

    fn remove(&mut self, dir: BorrowedFd<'_>, name: &CStr, depth: usize) -> io::Result<()> {
        let Some(inside) = remove_or_open(dir, name)? else { return Ok(()) };
        if depth >= DEEPEST {
            return self.move_up(dir, name);
        }
        self.empty(inside.as_fd(), depth + 1)?;
        remove_empty(dir, name)
    }

    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        loop {
            self.moved += 1;
            let free = format!("..removing-{}", self.moved);
            match rustix::fs::renameat_with(dir, name, self.top, &free, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                other => return Ok(other?),
            }
        }
    }
}

/// Removes the entry if it is not a directory; opens it if it is.
fn remove_or_open(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(None),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    match open_to_remove(dir, name) {
        Ok(inside) => Ok(Some(inside)),
        Err(Errno::ACCESS) => {
            // We are not root, and the directory is unreadable even for its owner.
            rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
            Ok(Some(open_to_remove(dir, name)?))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn remove_empty(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn open_to_remove(dir: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(
        dir,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_replaced_file_is_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn removal_minds_no_depth() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("..removing-1"), "a name that is taken").unwrap();
        let mut at: OwnedFd = File::open(&tree).unwrap().into();
        // A path to the bottom would exceed the maximum length.
        for _ in 0..5_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&at, "beside", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn removal_does_not_follow_links_and_minds_no_modes() {
        let dir = tempfile::tempdir().unwrap();
        let canary = dir.path().join("canary");
        fs::create_dir(&canary).unwrap();
        fs::write(canary.join("file"), "x").unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        symlink(&canary, tree.join("a/link")).unwrap();
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        remove_tree(&tree).unwrap();
        remove_tree(&tree.join("not/there")).unwrap();
        assert!(!tree.exists());
        assert!(canary.join("file").exists());
    }

    #[test]
    fn locks_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path).unwrap();
        assert!(try_lock(File::open(&path).unwrap()).unwrap().is_none());
        drop(held);
        assert!(try_lock(File::open(&path).unwrap()).unwrap().is_some());
    }
}
