//! A directory that nothing leads out of: the only way in which the unpacker touches files.
//!
//! The kernel resolves every path inside the root (`openat2`), so that neither `..` nor a link created by an earlier
//! entry can lead outside. Links on the path are followed as in a chroot: layers merged from packages have files under
//! `lib/` after a link `lib -> usr/lib`, and mean it.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::UnpackReason;
use crate::image::files;
use crate::image::rules::{PathError, Place};

/// How often a lookup is repeated when the kernel says so because it raced with a rename elsewhere on the machine.
const ATTEMPTS: usize = 128;

pub(super) struct Tree {
    root: Rc<OwnedFd>,
    root_depth: usize,
    max_depth: usize,
    /// The directory of the last entry, which is usually also that of the next. Cleared as soon as anything is removed,
    /// since the path might then lead elsewhere.
    last: Option<(Vec<u8>, Rc<OwnedFd>)>,
}

#[derive(Clone, Copy)]
enum Links {
    Refuse,
    FollowInside,
}

impl Tree {
    pub(super) fn open(target: &Path, max_depth: usize) -> Result<Self, UnpackReason> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, target, flags, Mode::empty())?;
        let root_depth = depth(&root)?;
        let tree = Self { root: Rc::new(root), root_depth, max_depth, last: None };
        match tree.resolve(b".", Links::Refuse) {
            Err(errno @ (Errno::NOSYS | Errno::PERM)) => Err(UnpackReason::NoConfinement(errno.into())),
            other => other.map(|_| tree).map_err(Into::into),
        }
    }

    /// Opens the directory that contains this place. Missing directories on the path are created.
    pub(super) fn parent(&mut self, place: &Place) -> Result<Rc<OwnedFd>, UnpackReason> {
        let path = place.parents.join(&b'/');
        if let Some((last, dir)) = &self.last
            && *last == path
        {
            return Ok(Rc::clone(dir));
        }
        let dir = match self.lookup(&path)? {
            Some(dir) => dir,
            None => self.make(&place.parents)?,
        };
        self.last = Some((path, Rc::clone(&dir)));
        Ok(dir)
    }

    /// Opens the directory that contains this place, if it exists.
    pub(super) fn existing_parent(&self, place: &Place) -> Result<Option<Rc<OwnedFd>>, UnpackReason> {
        self.lookup(&place.parents.join(&b'/'))
    }

    /// Opens the directory at this path, if there is one; a link to one does not count.
    pub(super) fn existing_dir(&self, path: &[u8]) -> Result<Option<OwnedFd>, UnpackReason> {
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        if name.is_empty() {
            return Ok(Some(self.readable(None)?));
        }
        let parent = match self.lookup(parent) {
            Ok(Some(parent)) => parent,
            // It was replaced by a file, or by a link that leads nowhere or too deep.
            Ok(None) | Err(UnpackReason::NotADirectory | UnpackReason::Path(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let name = std::ffi::CString::new(name).map_err(|_| PathError::Nul)?;
        match open_dir(parent.as_fd(), &name) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the root, or the directory at this path, so that its attributes can be set.
    pub(super) fn readable(&self, parts: Option<&[Vec<u8>]>) -> Result<OwnedFd, UnpackReason> {
        let path = parts.map(|parts| parts.join(&b'/')).unwrap_or_default();
        let dir = self.lookup(&path)?.ok_or(UnpackReason::NotADirectory)?;
        Ok(open_dir(dir.as_fd(), c".")?)
    }

    /// Removes whatever has this name.
    pub(super) fn clear(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), UnpackReason> {
        self.last = None;
        Ok(files::remove_at(parent, name)?)
    }

    pub(super) fn free_bytes(&self) -> Result<u64, UnpackReason> {
        files::free_bytes(&*self.root).map_err(UnpackReason::Io)
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Rc<OwnedFd>>, UnpackReason> {
        if path.is_empty() {
            return Ok(Some(Rc::clone(&self.root)));
        }
        match self.resolve(path, Links::Refuse) {
            Ok(dir) => return Ok(Some(Rc::new(dir))),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => {}
            Err(errno) => return Err(not_a_directory(errno)),
        }
        // There is a link on the path. What it leads to may be deeper than the path itself.
        let dir = match self.resolve(path, Links::FollowInside) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(not_a_directory(errno)),
        };
        if depth(&dir)? >= self.root_depth + self.max_depth {
            return Err(PathError::TooDeep(self.max_depth).into());
        }
        Ok(Some(Rc::new(dir)))
    }

    fn resolve(&self, path: &[u8], links: Links) -> Result<OwnedFd, Errno> {
        let links = match links {
            Links::Refuse => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            Links::FollowInside => ResolveFlags::IN_ROOT,
        };
        let resolve = links | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut result = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            result = rustix::fs::openat2(&*self.root, path, flags, Mode::empty(), resolve);
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        result
    }

    /// Creates the missing directories of this path.
    fn make(&self, parts: &[Vec<u8>]) -> Result<Rc<OwnedFd>, UnpackReason> {
        let mut dir = Rc::clone(&self.root);
        for end in 1..=parts.len() {
            let path = parts[..end].join(&b'/');
            dir = match self.lookup(&path)? {
                Some(dir) => dir,
                None => {
                    let name = parts[end - 1].as_slice();
                    match rustix::fs::mkdirat(&*dir, name, Mode::RWXU) {
                        Ok(()) => {}
                        // A link that leads nowhere, or a whiteout.
                        Err(Errno::EXIST) => return Err(UnpackReason::NotADirectory),
                        Err(errno) => return Err(errno.into()),
                    }
                    rustix::fs::chmodat(&*dir, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
                    self.lookup(&path)?.ok_or(UnpackReason::NotADirectory)?
                }
            };
        }
        Ok(dir)
    }
}

/// Opens the directory of this name for reading; links are refused.
pub(super) fn open_dir(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        // We are not root, and the directory is unreadable even for its owner.
        Err(Errno::ACCESS) => {
            let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())
        }
        other => other,
    }
}

/// Counts the directories above this one.
fn depth(dir: &OwnedFd) -> Result<usize, UnpackReason> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).map_err(UnpackReason::Io)?;
    Ok(path.as_os_str().as_bytes().iter().filter(|&&byte| byte == b'/').count())
}

fn not_a_directory(errno: Errno) -> UnpackReason {
    match errno {
        // XDEV would mean that something was mounted there, which cannot happen in our tree.
        Errno::NOTDIR | Errno::LOOP | Errno::XDEV => UnpackReason::NotADirectory,
        other => other.into(),
    }
}
