//! The store on disk: image records, layers, leases.
//!
//! ```text
//! <dir>/lock              held during every change, and never for long
//! <dir>/index.json        all images; replaced as a whole, so that a tag is never in two places or none
//! <dir>/layers/<hex>/fs   one unpacked layer by diff id; layer.json beside it has its size
//! <dir>/leases/<key>.json who uses what
//! <dir>/staging/…         work in progress, each directory locked by its owner; an unlocked one is garbage
//! <dir>/downloads/…       blobs being downloaded, continued by the next pull that needs them
//! ```
//!
//! A layer enters `layers/` by rename, complete and synced, and leaves it by rename into `staging/`. A process may
//! therefore die at any moment: the next one that opens the store cleans up after it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::files;
use super::host;
use super::index::{self, Found, Index};
use super::lease::{self, Lease};
use super::marks::Marks;
use super::name::{ImageName, NameError, Selector};
use super::pull;
use super::record::{Content, Image};
use super::staging;

/// The names, in a layer's directory, of its record and of the directory with its files.
pub(crate) const LAYER_META: &str = "layer.json";
pub(crate) const LAYER_FILES: &str = "fs";

/// An image store in a directory. It is cheap to clone; any number of clones and processes may read and write at once.
#[derive(Clone, Debug)]
pub struct ImageStore {
    paths: Arc<Paths>,
}

#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) root: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) layers: PathBuf,
    pub(crate) leases: PathBuf,
    pub(crate) staging: PathBuf,
    pub(crate) downloads: PathBuf,
}

/// The result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The image's id.
    pub id: Digest,
    /// Whether the image itself is gone, rather than only one of its names.
    pub image_gone: bool,
    /// How many layers were removed with it. Layers in use by a container or another image stay.
    pub layers_removed: usize,
}

/// The disk usage of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsUsage {
    /// The store's directory; its filesystem is the image filesystem.
    pub path: PathBuf,
    /// The bytes of all layers.
    pub used_bytes: u64,
    /// The number of files and directories in all layers.
    pub inodes_used: u64,
}

/// The record of a layer, stored beside its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerMeta {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
    pub(crate) marks: Marks,
    /// Whether the layer contains marks at all, so that their kind matters.
    pub(crate) marked: bool,
}

/// The error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The path it was attempted on.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the store does not have the content that we wrote. Nothing is removed until it does.
    #[error("{} is damaged: {source}; move it away to start without it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The store was written by a newer program.
    #[error("{} has format {found}, but this version supports {known}: use the version that wrote it", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The file's format version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The text is not an image name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There is no such image.
    #[error("no image {name:?} in the store: import or pull it first")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The text is the beginning of several ids.
    #[error("{name:?} is ambiguous: {} image IDs begin with it; give more digits", ids.len())]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// The ids that begin with it.
        ids: Vec<Digest>,
    },
    /// The built-in image cannot be removed or renamed, and no other image can get its name.
    #[error("the image \"host\" is built in: it cannot be removed, tagged or replaced")]
    BuiltIn,
    /// A digest was given where a tag is needed.
    #[error("{0} is a name with a digest, but a tag is needed")]
    NotATag(ImageName),
    /// The text cannot be used as the key of a lease.
    #[error("{0:?} is not a valid lease key")]
    LeaseKey(String),
    /// A layer that the image needs is missing.
    #[error("layer {layer} of image {image} is missing from the store: remove the image and pull it again")]
    LayerMissing {
        /// The image.
        image: Digest,
        /// The layer.
        layer: Digest,
    },
}

impl StoreError {
    /// Returns whether the requested image does not exist, as opposed to a store that does not work.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

// === impl ImageStore ===

impl ImageStore {
    /// Opens the store in this directory, which is created if missing, and removes what a killed process left behind.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, StoreError> {
        let root = std::path::absolute(dir.as_ref()).map_err(StoreError::io("cannot use", dir.as_ref()))?;
        let paths = Paths {
            lock: root.join("lock"),
            index: root.join("index.json"),
            layers: root.join("layers"),
            leases: root.join("leases"),
            staging: root.join("staging"),
            downloads: root.join("downloads"),
            root,
        };
        for dir in [&paths.root, &paths.layers, &paths.leases, &paths.staging, &paths.downloads] {
            files::create_private_dir(dir).map_err(StoreError::io("cannot create", dir))?;
        }
        let store = Self { paths: Arc::new(paths) };
        let rubbish = {
            let _lock = store.lock()?;
            let mut rubbish = staging::abandoned(&store.paths)?;
            let index = store.read_index()?;
            rubbish.extend(store.retire_unused(&index, None)?);
            rubbish
        };
        for path in rubbish {
            files::remove_tree(&path).map_err(StoreError::io("cannot sweep", &path))?;
        }
        pull::sweep(&store)?;
        Ok(store)
    }

    /// The store's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.paths.root
    }

    /// Returns all images: the built-in one first, the others sorted by id.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let mut images = vec![host::image()];
        images.extend(self.read_index()?.images);
        Ok(images)
    }

    /// Finds the image that a name, a digest, an id, or the beginning of an id refers to.
    pub fn resolve(&self, name: &str) -> Result<Image, StoreError> {
        find(&self.read_index()?, name)
    }

    /// Gives an image another tag, taking it from the image that had it.
    pub fn tag(&self, name: &str, tag: &ImageName) -> Result<Image, StoreError> {
        check_tag(tag)?;
        let _lock = self.lock()?;
        let mut index = self.read_index()?;
        let mut image = find(&index, name)?;
        if image.is_built_in() {
            return Err(StoreError::BuiltIn);
        }
        image.repo_tags.push(tag.to_string());
        let image = index.insert(image);
        self.write_index(&index)?;
        Ok(image)
    }

    /// Removes an image with all its names, and the layers that nothing else needs.
    pub fn remove(&self, name: &str) -> Result<Removed, StoreError> {
        self.remove_with(name, |index, image| index.remove(&image.id))
    }

    /// Removes one name of an image. The image itself is removed with its last tag, or if it was given by id.
    pub fn untag(&self, name: &str) -> Result<Removed, StoreError> {
        let selector = Selector::parse(name)?;
        self.remove_with(name, |index, image| match &selector {
            Selector::Name(name) => index.untag(&image.id, name),
            Selector::NameOrIdPrefix(name, _) if image.repo_tags.contains(&name.to_string()) => {
                index.untag(&image.id, name)
            }
            Selector::NameOrIdPrefix(..) | Selector::IdPrefix(_) | Selector::Digest(_) => {
                index.remove(&image.id)
            }
        })
    }

    fn remove_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut Index, &Image) -> bool,
    ) -> Result<Removed, StoreError> {
        let (removed, rubbish) = {
            let _lock = self.lock()?;
            let mut index = self.read_index()?;
            let image = find(&index, name)?;
            if image.is_built_in() {
                return Err(StoreError::BuiltIn);
            }
            let image_gone = change(&mut index, &image);
            // The record is removed first: a layer without a record is only garbage, but a record without its layers is
            // a broken image.
            self.write_index(&index)?;
            let rubbish =
                if image_gone { self.retire_unused(&index, Some(image.layers()))? } else { Vec::new() };
            (Removed { id: image.id, image_gone, layers_removed: rubbish.len() }, rubbish)
        };
        remove_all(&rubbish)?;
        Ok(removed)
    }

    /// Keeps this image's layers for this holder until [`ImageStore::release`], whatever happens to the image, to this
    /// process or to the machine. A second lease for the same key replaces the first.
    pub fn lease(&self, key: &str, image: &Image) -> Result<Lease, StoreError> {
        let path = self.lease_path(key)?;
        let lease = Lease { key: key.to_owned(), image: image.id.clone(), layers: image.layers().to_vec() };
        let _lock = self.lock()?;
        for layer in &lease.layers {
            if !self.layer_dir(layer).is_dir() {
                return Err(StoreError::LayerMissing { image: image.id.clone(), layer: layer.clone() });
            }
        }
        write_json(&path, &lease)?;
        Ok(lease)
    }

    /// Releases what this holder kept, if anything. Layers that nothing else needs are removed.
    pub fn release(&self, key: &str) -> Result<(), StoreError> {
        let path = self.lease_path(key)?;
        let rubbish = {
            let _lock = self.lock()?;
            let Some(lease) = read_json::<Lease>(&path)? else { return Ok(()) };
            fs::remove_file(&path).map_err(StoreError::io("cannot remove", &path))?;
            self.retire_unused(&self.read_index()?, Some(&lease.layers))?
        };
        remove_all(&rubbish)
    }

    /// Returns all leases, sorted by key. After a restart, release those whose holder no longer exists.
    pub fn leases(&self) -> Result<Vec<Lease>, StoreError> {
        let mut leases = Vec::new();
        for path in entries(&self.paths.leases)? {
            if path.extension().is_some_and(|extension| extension == "json")
                && let Some(lease) = read_json::<Lease>(&path)?
            {
                leases.push(lease);
            }
        }
        leases.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(leases)
    }

    /// Returns the disk usage of the layers, from their records rather than by counting again.
    pub fn fs_usage(&self) -> Result<FsUsage, StoreError> {
        let mut usage = FsUsage { path: self.paths.root.clone(), used_bytes: 0, inodes_used: 0 };
        for dir in entries(&self.paths.layers)? {
            // The layer may be in the middle of its removal; without its record it no longer counts.
            if let Some(meta) = read_json::<LayerMeta>(&dir.join(LAYER_META))? {
                usage.used_bytes += meta.bytes;
                usage.inodes_used += meta.inodes;
            }
        }
        Ok(usage)
    }

    /// Returns the directories of an image's layers, lowest first; none for the built-in image.
    #[must_use]
    pub fn layer_dirs(&self, image: &Image) -> Vec<PathBuf> {
        match &image.content {
            Content::Layers(layers) => {
                layers.iter().map(|layer| self.layer_dir(layer).join(LAYER_FILES)).collect()
            }
            Content::Host => Vec::new(),
        }
    }

    // --- for the rest of this module ---

    pub(crate) fn paths(&self) -> &Arc<Paths> {
        &self.paths
    }

    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        files::lock(&self.paths.lock).map_err(StoreError::io("cannot lock", &self.paths.lock))
    }

    pub(crate) fn layer_dir(&self, layer: &Digest) -> PathBuf {
        self.paths.layers.join(layer.hex())
    }

    pub(crate) fn read_index(&self) -> Result<Index, StoreError> {
        let index: Index = read_json(&self.paths.index)?.unwrap_or_default();
        if index.version == index::VERSION {
            Ok(index)
        } else {
            Err(StoreError::Format {
                path: self.paths.index.clone(),
                found: index.version,
                known: index::VERSION,
            })
        }
    }

    pub(crate) fn write_index(&self, index: &Index) -> Result<(), StoreError> {
        write_json(&self.paths.index, index)
    }

    fn lease_path(&self, key: &str) -> Result<PathBuf, StoreError> {
        if lease::is_key(key) {
            Ok(self.paths.leases.join(format!("{key}.json")))
        } else {
            Err(StoreError::LeaseKey(key.to_owned()))
        }
    }

    /// Moves the layers that nothing needs (of all, or of these candidates) out of the way, and returns where to. The
    /// caller holds the lock for this; the actual removal takes long, and can then happen without it.
    fn retire_unused(
        &self,
        index: &Index,
        candidates: Option<&[Digest]>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let mut needed = index.layers();
        needed.extend(self.leases()?.into_iter().flat_map(|lease| lease.layers));
        needed.extend(staging::pinned(&self.paths)?);
        let present: BTreeSet<Digest> = match candidates {
            Some(layers) => layers.iter().cloned().collect(),
            None => entries(&self.paths.layers)?
                .iter()
                .filter_map(|path| Digest::from_hex(path.file_name()?.to_str()?).ok())
                .collect(),
        };
        let mut retired = Vec::new();
        for layer in present.difference(&needed) {
            let from = self.layer_dir(layer);
            match staging::retire(&self.paths, &from) {
                Ok(to) => retired.push(to),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(StoreError::Io { doing: "cannot move away", path: from, source }),
            }
        }
        Ok(retired)
    }
}

/// Checks that this name may be given to an image other than the built-in one.
pub(crate) fn check_tag(tag: &ImageName) -> Result<(), StoreError> {
    if host::is_named_by(tag) {
        return Err(StoreError::BuiltIn);
    }
    if tag.tag().is_none() {
        return Err(StoreError::NotATag(tag.clone()));
    }
    Ok(())
}

fn find(index: &Index, name: &str) -> Result<Image, StoreError> {
    match index.find(&Selector::parse(name)?) {
        Found::One(image) => Ok(*image),
        Found::None => Err(StoreError::NotFound { name: name.to_owned() }),
        Found::Several(ids) => Err(StoreError::Ambiguous { name: name.to_owned(), ids }),
    }
}

/// Reads the record of the layer with these files.
pub(crate) fn read_layer_meta(files: &Path) -> io::Result<LayerMeta> {
    Ok(serde_json::from_slice(&fs::read(files.with_file_name(LAYER_META))?)?)
}

fn remove_all(rubbish: &[PathBuf]) -> Result<(), StoreError> {
    for path in rubbish {
        files::remove_tree(path).map_err(StoreError::io("cannot remove", path))?;
    }
    Ok(())
}

pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let list = || fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    list().map_err(StoreError::io("cannot list", dir))
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| StoreError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("cannot read", path)(error)),
    }
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let bytes =
        serde_json::to_vec(value).map_err(|source| StoreError::Damaged { path: path.to_owned(), source })?;
    files::replace(path, &bytes).map_err(StoreError::io("cannot write", path))
}
