//! The file by which an agent or a command has a folder for itself: whoever has locked it, and it says who that is.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const FILE: &str = "agent.lock";

/// Only for its owner: whoever may read a file may lock it, too.
const MODE: u32 = 0o600;

/// What has a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Agent,
    /// It does without an agent, and is done at some time.
    Command,
}

/// A folder is ours as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// The file in that folder.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Takes the folder if nobody has.
    pub(super) fn try_take(folder: &Path, who: Holder) -> io::Result<Option<Self>> {
        let mut options = File::options();
        let mut file =
            options.write(true).create(true).truncate(false).mode(MODE).open(Self::path(folder))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        // One that was there may be older than this rule, or somebody else's.
        let _ = file.set_permissions(Permissions::from_mode(MODE));
        // For people and for those who wait: who cannot say who he is has it all the same, as on a full disk.
        let who = match who {
            Holder::Agent => "agent",
            Holder::Command => "command",
        };
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{who} {}", std::process::id()));
        Ok(Some(Self(file)))
    }

    /// Whether somebody has the folder.
    pub(super) fn is_taken(folder: &Path) -> bool {
        let Ok(file) = File::open(Self::path(folder)) else { return false };
        // Shared, so that two who look do not take each other for an agent.
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Who took the folder last, and which process that was.
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

    /// Keeps the folder until this process ends: what it has begun goes on until then.
    pub(crate) fn keep(self) {
        std::mem::forget(self.0);
    }
}
