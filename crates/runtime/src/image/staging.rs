//! Work in progress: directories that exist for a while, each locked by the process that fills it.
//!
//! A lock dies with its process, so a directory that nobody locks is rubbish and may be swept. Making one
//! and locking it happens under the store's lock, and so does the sweep: they never meet halfway.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::digest::Digest;
use super::files;
use super::store::{ImageStore, Paths, StoreError, entries, read_json, write_json};

const PINS: &str = "pins.json";

/// A directory of one's own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    store: ImageStore,
    _lock: File,
}

impl Staging {
    /// A new empty directory in this store.
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

    /// Keeps a layer that is already in the store from being removed while this work lasts.
    /// False if it is not there.
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
        // What cannot be removed now is swept by whoever opens the store next.
        if let Err(error) = files::remove_tree(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a staging directory");
        }
    }
}

/// What nobody works on any more. The caller holds the store's lock.
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

/// The layers that work in progress relies on. The caller holds the store's lock.
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

/// Moves a directory out of sight, to be removed from where it then is.
pub(crate) fn retire(paths: &Paths, from: &Path) -> io::Result<PathBuf> {
    fs::symlink_metadata(from)?;
    let to = fresh_dir(&paths.staging, "old")?;
    // An empty directory is replaced by the rename.
    match fs::rename(from, &to) {
        Ok(()) => Ok(to),
        Err(error) => {
            let _ = fs::remove_dir(&to);
            Err(error)
        }
    }
}

/// A name that was never used before: whoever removes a directory by its name, however late, removes that one.
fn fresh_dir(parent: &Path, kind: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut bytes = [0; 16];
    // Reads of up to 256 bytes are never cut short.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let path = parent.join(format!("{kind}-{:032x}", u128::from_ne_bytes(bytes)));
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}
