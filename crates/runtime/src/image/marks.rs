//! How a layer on disk says "gone": overlayfs' own marks, so that a layer can be mounted as it lies.
//!
//! A whiteout is a character device 0/0 (which even the unprivileged may make); an opaque directory, which hides
//! what lower layers have there, carries an extended attribute: `trusted.` for root, `user.` in a user namespace.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Mode, Stat, XattrFlags};
use rustix::io::Errno;

const TRUSTED_OPAQUE: &str = "trusted.overlay.opaque";
const USER_OPAQUE: &str = "user.overlay.opaque";
const YES: &[u8] = b"y";

/// Which of the two attributes a layer is marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Marks {
    /// `trusted.overlay.*`, which only root of the machine can write and read.
    Trusted,
    /// `user.overlay.*`, for overlays mounted with `userxattr`.
    User,
}

impl Marks {
    /// The kind that can be written in this directory by this process.
    pub(crate) fn usable(dir: BorrowedFd<'_>) -> Self {
        const PROBE: &str = "trusted.overlay.probe";
        match rustix::fs::fsetxattr(dir, PROBE, YES, XattrFlags::empty()) {
            Ok(()) => {
                let _ = rustix::fs::fremovexattr(dir, PROBE);
                Self::Trusted
            }
            Err(_) => Self::User,
        }
    }

    /// Makes this directory hide what is below it.
    pub(crate) fn make_opaque(self, dir: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let name = match self {
            Self::Trusted => TRUSTED_OPAQUE,
            Self::User => USER_OPAQUE,
        };
        rustix::fs::fsetxattr(dir, name, YES, XattrFlags::empty())
    }
}

/// Whether this directory hides what is below it, by either mark.
pub(crate) fn is_opaque(dir: impl AsFd) -> bool {
    [TRUSTED_OPAQUE, USER_OPAQUE].into_iter().any(|name| {
        let mut value = [0_u8; 2];
        matches!(rustix::fs::fgetxattr(dir.as_fd(), name, &mut value), Ok(1)) && value[0] == YES[0]
    })
}

/// Whether this entry of a layer hides the same name in lower layers.
pub(crate) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Hides this name in lower layers.
pub(crate) fn make_whiteout(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    rustix::fs::mknodat(dir, name, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Whether this attribute belongs to overlayfs: never taken from an archive, never copied.
pub(crate) fn is_overlay_attribute(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}
