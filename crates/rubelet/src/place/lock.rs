//! The lock file through which an agent or a command has a folder to itself. The process that locks it also writes into
//! it which one it is.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const FILE: &str = "agent.lock";

/// For its owner only: whoever may read a file may also lock it.
const MODE: u32 = 0o600;

/// The kind of process that holds a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Agent,
    /// A command that works without an agent, and ends sooner or later.
    Command,
}

/// Holds a folder for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Returns the path of the lock file in that folder.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Takes the folder if it is free.
    pub(super) fn try_take(folder: &Path, who: Holder) -> io::Result<Option<Self>> {
        let mut options = File::options();
        let mut file =
            options.write(true).create(true).truncate(false).mode(MODE).open(Self::path(folder))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // An existing file may be older than this rule, or belong to somebody else.
        let _ = file.set_permissions(Permissions::from_mode(MODE));
        // For people, and for processes that wait. If it cannot be written, as on a full disk, the folder is held all
        // the same.
        let who = match who {
            Holder::Agent => "agent",
            Holder::Command => "command",
        };
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{who} {}", std::process::id()));
        Ok(Some(Self(file)))
    }

    /// Whether something holds the folder.
    pub(super) fn is_taken(folder: &Path) -> bool {
        let Ok(file) = File::open(Self::path(folder)) else { return false };
        // A shared lock, so that two processes that check at the same time do not take each other for an agent.
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Returns the last holder of the folder, and its process id.
    pub(super) fn holder(folder: &Path) -> Option<(Holder, u32)> {
        let text = fs::read_to_string(Self::path(folder)).ok()?;
        let (who, pid) = text.trim_end().split_once(' ')?;
        let who = match who {
            "agent" => Holder::Agent,
            "command" => Holder::Command,
            _ => return None,
        };
        Some((who, pid.parse().ok()?))
    }

    /// Keeps the folder until this process ends, since operations that were started may continue until then.
    pub(crate) fn keep(self) {
        std::mem::forget(self.0);
    }
}
