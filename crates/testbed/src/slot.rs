//! A numbered private place for one runtime: a folder with a short path, a lock that shows who owns it, and the number
//! that determines its network.
//!
//! The lock is held by the process that owns the runtime, and is released when that process ends, however it ends. A
//! folder whose lock is free was left by a test that was killed; the next process to come along takes it down.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, teardown};

/// Not the configured temporary folder: socket paths must be shorter than 108 bytes, and two processes with different
/// temporary folders must not choose the same number.
const BASE: &str = "/tmp/rubelet-testbed";
const COUNT: usize = 256;

/// Advances with every claim, so that a client of a runtime that is gone does not meet its successor on the same
/// socket.
static CLAIMS: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(crate) struct Slot {
    number: u8,
    dir: PathBuf,
    _lock: File,
}

impl Slot {
    /// Claims a free slot, with an empty folder.
    pub(crate) fn claim() -> Result<Self, Error> {
        // What cannot be taken down is not this caller's fault, and there are other slots.
        if let Err(error) = sweep_abandoned() {
            eprintln!("warning: {error}");
        }
        let first = std::process::id() as usize + CLAIMS.fetch_add(1, Ordering::Relaxed);
        for number in (first..first + COUNT).map(|number| (number % COUNT) as u8) {
            if let Some(slot) = Self::lock(number)?
                && !slot.dir.exists()
            {
                private_dir(&slot.dir)?;
                return Ok(slot);
            }
        }
        Err(Error::NoFreeSlot { base: BASE.into(), count: COUNT })
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Locks a slot; `None` if somebody else owns it.
    fn lock(number: u8) -> Result<Option<Self>, Error> {
        let base = Path::new(BASE);
        private_dir(base)?;
        // Never removed: a lock file that is deleted and recreated can be held twice.
        let path = base.join(format!("{number}.lock"));
        let lock =
            OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { number, dir: base.join(number.to_string()), _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(Error::io("lock", &path)(source)),
        }
    }
}

/// Takes down every runtime whose owner is gone, and returns their folders.
///
/// Starting a runtime does this too. A test run calls it at its end, for what statics and killed tests left behind.
pub fn sweep_abandoned() -> Result<Vec<PathBuf>, Error> {
    let Ok(entries) = fs::read_dir(BASE) else {
        return Ok(Vec::new());
    };
    let mut swept = Vec::new();
    for number in entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u8>().ok()) {
        if let Some(slot) = Slot::lock(number)?
            // Its owner may have taken it down since the folder was listed.
            && slot.dir.exists()
        {
            teardown::take_down(&slot)?;
            swept.push(slot.dir);
        }
    }
    Ok(swept)
}

fn private_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o711).create(path).map_err(Error::io("create", path))
}
