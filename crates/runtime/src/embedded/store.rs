//! What is on disk, and how it is written: atomically.
//!
//! ```text
//! <data dir>/lock                      held by the one runtime that owns this folder
//! <data dir>/sandboxes/<id>/sandbox.json   written last on creation: a folder without it is incomplete
//!                           request.pb     the PodSandboxConfig as received
//!                           ns/{net,ipc,uts}   bind mounts that hold the namespaces
//!                           shm, hosts, hostname, resolv.conf, pause/
//! <data dir>/containers/<id>/container.json  written last on creation
//!                            request.pb, config.json (OCI), seccomp.bpf, shim.json, shim.sock
//!                            exit.json     how it ended: written by the shim
//! ```
//! Records change rarely and have one writer each. A record is replaced by rename: readers see the old or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use crate::image::files;

/// Whether a write must also survive a power failure. A killed process loses nothing either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Survives the end of every process, but not a power failure, after which nothing that this describes is running.
    Process,
    /// Flushed to the device before it becomes visible.
    Power,
}

/// The paths below the data folder.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Creates a layout. `root` must be absolute: shims and helpers run in other folders.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.root.join("sandboxes")
    }

    pub(crate) fn containers(&self) -> PathBuf {
        self.root.join("containers")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub(crate) fn sandbox(&self, id: &str) -> PathBuf {
        self.sandboxes().join(id)
    }

    pub(crate) fn container(&self, id: &str) -> PathBuf {
        self.containers().join(id)
    }
}

pub(crate) const RECORD_SANDBOX: &str = "sandbox.json";
pub(crate) const RECORD_CONTAINER: &str = "container.json";
pub(crate) const REQUEST: &str = "request.pb";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const SHIM_SOCKET: &str = "shim.sock";

/// Whether a container below this data folder has not ended, according to its records: containers keep running without
/// their runtime.
#[must_use]
pub fn is_anything_left(data: &Path) -> bool {
    let layout = Layout::new(data.to_owned());
    let has_ended = |id: &String| layout.container(id).join(EXIT).exists();
    entries(&layout.containers()).is_ok_and(|ids| !ids.iter().all(has_ended))
}

/// Creates a folder that only its owner can enter, with its parents.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io(format!("create {}", path.display()), error))
}

/// Atomically replaces a file by one with these bytes.
pub(crate) fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let attempt = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        if durability == Durability::Power {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)
    };
    attempt().map_err(|error| Error::io(format!("write {}", path.display()), error))
}

/// Writes a JSON document, as [`write`] does.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, durability: Durability) -> Result<()> {
    let bytes =
        serde_json::to_vec(value).map_err(|error| Error::io(format!("encode {}", path.display()), error))?;
    write(path, &bytes, durability)
}

/// Reads a JSON document; `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::io(format!("decode {}", path.display()), error))
}

/// Reads a file; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("read {}", path.display()), error)),
    }
}

/// Returns the names of a folder's entries, or none if there is no such folder.
pub(crate) fn entries(path: &Path) -> Result<Vec<String>> {
    let listing = match fs::read_dir(path) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(format!("list {}", path.display()), error)),
    };
    let names = listing.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<_> = names
        .collect::<Result<_, _>>()
        .map_err(|error: std::io::Error| Error::io(format!("list {}", path.display()), error))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Removes a folder and everything below it, if it exists.
///
/// Anything mounted below it is an error: callers must unmount first.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    files::remove_tree(path).map_err(|error| Error::io(format!("remove {}", path.display()), error))
}

/// Locks the folder for this process; a second runtime in the same folder gets an error.
pub(crate) fn lock(root: &Path) -> Result<File> {
    let path = root.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(|error| Error::io(format!("open {}", path.display()), error))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|errno| {
        match errno {
            rustix::io::Errno::WOULDBLOCK => Error::State(format!(
                "another runtime is using {}; stop it, or choose another --data-dir",
                root.display()
            )),
            other => Error::io(format!("lock {}", path.display()), other),
        }
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        assert_eq!(read_json::<Vec<u32>>(&path).unwrap(), None);
        write_json(&path, &vec![1, 2], Durability::Process).unwrap();
        write_json(&path, &vec![3], Durability::Power).unwrap();
        assert_eq!(read_json::<Vec<u32>>(&path).unwrap(), Some(vec![3]));
        assert_eq!(entries(dir.path()).unwrap(), ["r.json"], "nothing temporary stays");
    }

    #[test]
    fn a_torn_record_is_an_error_and_not_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, b"{\"id\":").unwrap();
        assert!(read_json::<serde_json::Value>(&path).is_err());
    }

    #[test]
    fn one_runtime_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        let refused = lock(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("another runtime is using"), "{refused}");
        drop(held);
        lock(dir.path()).unwrap();
    }
}
