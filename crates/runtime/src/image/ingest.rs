//! How images enter the store, the same for archives and registries: layers are unpacked to the side and verified, and
//! then either everything becomes visible at once or nothing does.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{ConfigBlob, ConfigError};
use super::digest::Digest;
use super::files;
use super::limits::Limits;
use super::name::ImageName;
use super::platform::Platform;
use super::record::{Content, Image};
use super::staging::Staging;
use super::store::{ImageStore, LAYER_FILES, LAYER_META, StoreError, check_tag, read_layer_meta, write_json};
use super::streams::{Capped, Hashing, decompress};
use super::unpack::{UnpackError, unpack};

/// More than any builder produces, and more than an overlay can hold.
const MAX_LAYERS: usize = 500;

/// Work on one or several images. If it is dropped without a commit, nothing of it remains.
#[derive(Clone, Debug)]
pub(crate) struct Ingest {
    store: ImageStore,
    staging: Arc<Staging>,
    limits: Limits,
}

/// An image whose layers have all been unpacked.
#[derive(Debug)]
pub(crate) struct NewImage {
    /// The digest of the configuration.
    pub(crate) id: Digest,
    pub(crate) config: ConfigBlob,
    pub(crate) tags: Vec<ImageName>,
    /// The names of the same image by the digests of its manifests.
    pub(crate) digests: Vec<ImageName>,
}

/// Why a configuration or a layer was refused.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A blob does not match its digest.
    #[error("{what} has digest {found} instead of {wanted}: it is damaged or forged")]
    Digest {
        /// What kind of blob it is.
        what: &'static str,
        /// The digest it should have.
        wanted: Digest,
        /// The digest it has.
        found: Digest,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The manifest and the configuration disagree about the number of layers.
    #[error("the manifest lists {manifest} layers, but the configuration {config}")]
    LayerCount {
        /// The number in the manifest.
        manifest: usize,
        /// The number in the configuration.
        config: usize,
    },
    /// The image has more layers than any real one.
    #[error("the image has {0} layers; at most {MAX_LAYERS} are accepted")]
    TooManyLayers(usize),
    /// The image was built for another operating system.
    #[error("the image is for {0}, but this machine runs linux")]
    WrongSystem(String),
    /// A layer cannot be unpacked.
    #[error("layer {layer}: {source}")]
    Layer {
        /// The layer's diff id.
        layer: Digest,
        /// Why.
        source: UnpackError,
    },
    /// A layer cannot be read or decompressed.
    #[error("layer {layer}: {source}")]
    Read {
        /// The layer's diff id.
        layer: Digest,
        /// Why.
        source: io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads a configuration and checks it against its digest and the number of layers that go with it.
pub(crate) fn read_config(
    json: &[u8],
    wanted: Option<&Digest>,
    layers: usize,
) -> Result<(Digest, ConfigBlob), IngestError> {
    let found = Digest::of(json);
    if let Some(wanted) = wanted
        && *wanted != found
    {
        return Err(IngestError::Digest { what: "the configuration", wanted: wanted.clone(), found });
    }
    if layers > MAX_LAYERS {
        return Err(IngestError::TooManyLayers(layers));
    }
    let config = ConfigBlob::parse(json)?;
    if config.diff_ids.len() != layers {
        return Err(IngestError::LayerCount { manifest: layers, config: config.diff_ids.len() });
    }
    let machine = Platform::host();
    if !config.os.is_empty() && config.os != machine.os {
        return Err(IngestError::WrongSystem(format!("{}/{}", config.os, config.architecture)));
    }
    if !config.architecture.is_empty() && config.architecture != machine.architecture {
        // It can run if the kernel has an emulator registered, which only the user knows.
        tracing::warn!(image = %found, built_for = %config.architecture, "the image was built for another \
                                                                          architecture");
    }
    Ok((found, config))
}

// === impl Ingest ===

impl Ingest {
    pub(crate) fn begin(store: &ImageStore, limits: &Limits) -> Result<Self, StoreError> {
        let staging = Staging::create(store)?;
        let layers = staging.path().join("layers");
        files::create_private_dir(&layers).map_err(StoreError::io("cannot create", &layers))?;
        Ok(Self { store: store.clone(), staging, limits: limits.clone() })
    }

    /// A directory that lasts as long as this work does.
    pub(crate) fn dir(&self) -> &Path {
        self.staging.path()
    }

    fn staged(&self, layer: &Digest) -> PathBuf {
        self.staging.path().join("layers").join(layer.hex())
    }

    /// Returns whether the layer is already here and need not be fetched. If so, it stays until the end of this work.
    pub(crate) fn has(&self, layer: &Digest) -> Result<bool, StoreError> {
        Ok(self.staged(layer).is_dir() || self.staging.pin(layer)?)
    }

    /// Unpacks a layer from its blob, whatever the compression, and verifies both digests.
    pub(crate) fn unpack(
        &self,
        blob: impl Read,
        blob_digest: Option<&Digest>,
        layer: &Digest,
    ) -> Result<(), IngestError> {
        let read = |source| IngestError::Read { layer: layer.clone(), source };
        let partial = self.staged(layer).with_extension("partial");
        // The image lists this layer twice, or this is a second attempt.
        files::remove_tree(&partial).map_err(StoreError::io("cannot remove", &partial))?;
        let target = partial.join(LAYER_FILES);
        files::create_private_dir(&target).map_err(StoreError::io("cannot create", &target))?;

        let mut raw = Hashing::new(blob);
        let plain = decompress(&mut raw).map_err(read)?;
        let mut plain = Hashing::new(Capped::new(plain, self.limits.max_layer_bytes));
        let unpacked = unpack(&mut plain, &target, &self.limits);
        // A damaged blob often fails to unpack first, but that its digest is wrong is the better message.
        let diff_id = unpacked.is_ok().then(|| plain.finish()).transpose();
        if let Some(wanted) = blob_digest {
            let (found, _) = raw.finish().map_err(read)?;
            if found != *wanted {
                return Err(IngestError::Digest { what: "a layer's blob", wanted: wanted.clone(), found });
            }
        }
        let meta = unpacked.map_err(|source| IngestError::Layer { layer: layer.clone(), source })?;
        let found = diff_id.map_err(read)?.map(|(digest, _)| digest);
        if let Some(found) = found.filter(|found| found != layer) {
            return Err(IngestError::Digest { what: "an unpacked layer", wanted: layer.clone(), found });
        }
        write_json(&partial.join(LAYER_META), &meta)?;
        match fs::rename(&partial, self.staged(layer)) {
            // Another task of this work has unpacked the same layer in the meantime.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                files::remove_tree(&partial).map_err(StoreError::io("cannot remove", &partial))?;
            }
            other => other.map_err(StoreError::io("cannot rename", &partial))?,
        }
        Ok(())
    }

    /// Makes the images visible, all of them at once.
    pub(crate) fn commit(&self, images: Vec<NewImage>) -> Result<Vec<Image>, StoreError> {
        for tag in images.iter().flat_map(|image| &image.tags) {
            check_tag(tag)?;
        }
        let wanted: BTreeSet<&Digest> = images.iter().flat_map(|image| &image.config.diff_ids).collect();
        if wanted.iter().any(|layer| self.staged(layer).is_dir()) {
            // Synced before any layer gets its final name, so that whatever has that name is complete, even after a
            // power cut.
            let dir = self.staging.path();
            files::sync_filesystem(dir).map_err(StoreError::io("cannot sync", dir))?;
        }
        let _lock = self.store.lock()?;
        for layer in wanted {
            let (from, to) = (self.staged(layer), self.store.layer_dir(layer));
            if from.is_dir() && !to.exists() {
                fs::rename(&from, &to).map_err(StoreError::io("cannot rename", &from))?;
            }
        }
        let layers = &self.store.paths().layers;
        files::sync_dir(layers).map_err(StoreError::io("cannot sync", layers))?;
        let mut index = self.store.read_index()?;
        let mut records = Vec::new();
        for image in images {
            let mut size = 0;
            for layer in image.config.diff_ids.iter().collect::<BTreeSet<_>>() {
                let meta = read_layer_meta(&self.store.layer_dir(layer).join(LAYER_FILES)).map_err(|_| {
                    StoreError::LayerMissing { image: image.id.clone(), layer: layer.clone() }
                })?;
                size += meta.bytes;
            }
            records.push(index.insert(Image {
                id: image.id,
                repo_tags: image.tags.iter().map(ToString::to_string).collect(),
                repo_digests: image.digests.iter().map(ToString::to_string).collect(),
                size,
                config: image.config.config,
                content: Content::Layers(image.config.diff_ids),
            }));
        }
        self.store.write_index(&index)?;
        Ok(records)
    }
}
