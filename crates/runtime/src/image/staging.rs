//! Work in progress: temporary directories, each locked by the process that fills it.
//!
//! A lock ends with its process, so an unlocked directory is garbage and can be removed. Creating and locking one
//! happens under the store's lock, as does the cleanup, so the cleanup never sees a directory between the two.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::digest::Digest;
use super::files;
use super::store::{ImageStore, Paths, StoreError, entries, read_json, write_json};

const PINS: &str = "pins.json";

/// A private directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    store: ImageStore,
    _lock: File,
}

impl Staging {
    /// Creates an empty directory in this store.
    pub(crate) fn create(store: &ImageStore) -> Result<Arc<Self>, StoreError> {
        let paths = store.paths();
        let _lock = store.lock()?;
        let path =
            fresh_dir(&paths.staging, "work").map_err(StoreError::io("cannot create", &paths.staging))?;
        let lock = File::open(&path)
            .and_then(files::try_lock)
            .map_err(StoreError::io("cannot lock", &path))?
            .ok_or_else(|| StoreError::io("cannot lock", &path)(io::ErrorKind::WouldBlock.into()))?;
        Ok(Arc::new(Self { path, store: store.clone(), _lock: lock }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Protects a layer that is already in the store from removal while this work lasts. Returns false if the layer is
    /// not there.
    pub(crate) fn pin(&self, layer: &Digest) -> Result<bool, StoreError> {
        let _lock = self.store.lock()?;
        if !self.store.layer_dir(layer).is_dir() {
            return Ok(false);
        }
        let file = self.path.join(PINS);
        let mut pins: BTreeSet<Digest> = read_json(&file)?.unwrap_or_default();
        if pins.insert(layer.clone()) {
            write_json(&file, &pins)?;
        }
        Ok(true)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process that opens the store.
        if let Err(error) = files::remove_tree(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a staging directory");
        }
    }
}

/// Returns the directories that no process is working in any more. The caller holds the store's lock.
pub(crate) fn abandoned(paths: &Paths) -> Result<Vec<PathBuf>, StoreError> {
    let mut abandoned = Vec::new();
    for path in entries(&paths.staging)? {
        if owner_lives(&path)? {
            continue;
        }
        abandoned.push(path);
    }
    Ok(abandoned)
}

/// Returns the layers that work in progress relies on. The caller holds the store's lock.
pub(crate) fn pinned(paths: &Paths) -> Result<BTreeSet<Digest>, StoreError> {
    let mut pinned = BTreeSet::new();
    for path in entries(&paths.staging)? {
        if owner_lives(&path)? {
            pinned.extend(read_json::<BTreeSet<Digest>>(&path.join(PINS))?.unwrap_or_default());
        }
    }
    Ok(pinned)
}

fn owner_lives(path: &Path) -> Result<bool, StoreError> {
    match File::open(path).and_then(files::try_lock) {
        Ok(lock) => Ok(lock.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("cannot stat", path)(error)),
    }
}

/// Moves a directory to a new name, from where it can be removed later.
pub(crate) fn retire(paths: &Paths, from: &Path) -> io::Result<PathBuf> {
    fs::symlink_metadata(from)?;
    let to = fresh_dir(&paths.staging, "old")?;
    // The rename replaces the empty directory.
    match fs::rename(from, &to) {
        Ok(()) => Ok(to),
        Err(error) => {
            let _ = fs::remove_dir(&to);
            Err(error)
        }
    }
}

/// Creates a directory with a name that was never used before, so that a removal by name, however late, never hits
/// another one.
fn fresh_dir(parent: &Path, kind: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut bytes = [0; 16];
    // Reads of up to 256 bytes are never short.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let path = parent.join(format!("{kind}-{:032x}", u128::from_ne_bytes(bytes)));
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
