//! How an unpacked layer says that a file is gone: with overlayfs' own marks, so that the layer can be mounted as it
//! is.
//!
//! A whiteout is a character device 0/0 (which even an unprivileged user may create). An opaque directory, which hides
//! what lower layers have there, carries an extended attribute: `trusted.` for root, `user.` in a user namespace. Where
//! the filesystem supports neither, for instance because it is an overlay itself, the names stay as they are in
//! archives; such a layer can only be copied.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;

const TRUSTED_OPAQUE: &str = "trusted.overlay.opaque";
const USER_OPAQUE: &str = "user.overlay.opaque";
const YES: &[u8] = b"y";
/// The prefix of marks in archives, and the name of the mark that makes a directory opaque.
pub(crate) const PREFIX: &[u8] = b".wh.";
pub(crate) const OPAQUE_NAME: &CStr = c".wh..wh..opq";

/// The kinds of marks in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Marks {
    /// `trusted.overlay.*`, which only the machine's root can write and read.
    Trusted,
    /// `user.overlay.*`, for overlays mounted with `userxattr`.
    User,
    /// Files named `.wh.*`, as in archives.
    Names,
}

impl Marks {
    /// Determines which kind this process can write in this directory.
    pub(crate) fn usable(dir: BorrowedFd<'_>) -> Self {
        const PROBE: &CStr = c".wh.probe";
        if rustix::fs::mknodat(dir, PROBE, FileType::CharacterDevice, Mode::empty(), 0).is_err() {
            return Self::Names;
        }
        let _ = rustix::fs::unlinkat(dir, PROBE, AtFlags::empty());
        for (marks, name) in [(Self::Trusted, "trusted.overlay.probe"), (Self::User, "user.overlay.probe")] {
            if rustix::fs::fsetxattr(dir, name, YES, XattrFlags::empty()).is_ok() {
                let _ = rustix::fs::fremovexattr(dir, name);
                return marks;
            }
        }
        Self::Names
    }

    /// Makes this directory hide what lower layers have in it.
    pub(crate) fn make_opaque(self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        match self {
            Self::Trusted => rustix::fs::fsetxattr(dir, TRUSTED_OPAQUE, YES, XattrFlags::empty()),
            Self::User => rustix::fs::fsetxattr(dir, USER_OPAQUE, YES, XattrFlags::empty()),
            Self::Names => empty_file(dir, OPAQUE_NAME),
        }
    }

    /// Hides this name in lower layers. Fails with `EXIST` if this layer itself has an entry of that name, which then
    /// hides it too, unless both are directories.
    pub(crate) fn make_whiteout(self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
        match self {
            Self::Trusted | Self::User => {
                rustix::fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0)
            }
            Self::Names => {
                let mark = CString::new([PREFIX, name.to_bytes()].concat()).map_err(|_| Errno::INVAL)?;
                empty_file(dir, &mark)
            }
        }
    }
}

fn empty_file(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map(drop)
}

/// Returns whether this directory hides what lower layers have in it, by any kind of mark.
pub(crate) fn is_opaque(dir: impl AsFd) -> bool {
    [TRUSTED_OPAQUE, USER_OPAQUE].into_iter().any(|name| {
        let mut value = [0_u8; 2];
        matches!(rustix::fs::fgetxattr(dir.as_fd(), name, &mut value), Ok(1)) && value[0] == YES[0]
    }) || rustix::fs::statat(dir.as_fd(), OPAQUE_NAME, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Returns whether this entry of a layer hides the same name in lower layers.
pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Returns whether this attribute belongs to overlayfs. Such attributes are never taken from an archive, and never
/// copied.
pub(crate) fn is_overlay_attribute(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}
