//! Import of images from a file: archives as `docker save`, `podman save`, `skopeo`, `buildah` and `ctr` write them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::digest::Digest;
use super::ingest::{Ingest, IngestError, NewImage, read_config};
use super::limits::Limits;
use super::manifest::{Descriptor, DockerImage, Document, ImageIndex, ImageManifest, ManifestError};
use super::name::{ImageName, NameError};
use super::platform::Platform;
use super::progress::{Event, Progress};
use super::record::Image;
use super::store::{ImageStore, StoreError, check_tag};
use super::tape::TarError;

const OCI_INDEX: &str = "index.json";
const DOCKER_MANIFEST: &str = "manifest.json";
/// The largest accepted document: real ones are small.
const MAX_DOCUMENT: u64 = 8 << 20;
/// How deeply indexes may list further indexes.
const MAX_NESTING: usize = 4;
const MAX_IMAGES: usize = 1000;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The name to give the image instead of those in the archive, which must then hold exactly one image.
    pub tag: Option<ImageName>,
    /// The limits on what the archive may use.
    pub limits: Limits,
}

/// The error of an import. The store is left as it was before.
#[derive(Debug, thiserror::Error)]
#[error("cannot import {}: {reason}", archive.display())]
pub struct ImportError {
    /// The archive.
    pub archive: PathBuf,
    /// What is wrong.
    #[source]
    pub reason: ImportReason,
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ImportReason {
    /// The archive cannot be opened.
    #[error(transparent)]
    Open(io::Error),
    /// It is not a tar archive, or a damaged one.
    #[error("not a readable archive: {0}")]
    Tar(#[from] TarError),
    /// It is a tar archive, but contains no images.
    #[error(
        "not an image archive, since it has neither {OCI_INDEX} nor {DOCKER_MANIFEST}: create one with `docker save` \
         or `skopeo copy … oci-archive:FILE`"
    )]
    NotImages,
    /// It contains no image for this machine, or none at all.
    #[error("the archive has no image for {wanted}{}", only_for(.offered))]
    NoImage {
        /// The platform of this machine.
        wanted: Platform,
        /// The platforms that it has images for.
        offered: Vec<Platform>,
    },
    /// A blob is referred to but missing.
    #[error("{0:?} is missing from the archive")]
    Missing(String),
    /// A document is larger than any real one.
    #[error("{0:?} is larger than {MAX_DOCUMENT} bytes")]
    TooLarge(String),
    /// A document cannot be read.
    #[error("{name:?}: {source}")]
    Document {
        /// The document's name in the archive.
        name: String,
        /// What is wrong.
        source: ManifestError,
    },
    /// Indexes are nested too deeply, or list more images than any real archive has.
    #[error("its index is nested too deeply or lists too much")]
    Unreasonable,
    /// A tag in the archive is not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// One name was given for several images.
    #[error("the archive has {0} images, and one tag cannot name them all: import it without a tag")]
    OneTagForSeveral(usize),
    /// A configuration or layer was refused.
    #[error(transparent)]
    Ingest(#[from] IngestError),
}

impl From<StoreError> for ImportReason {
    fn from(error: StoreError) -> Self {
        Self::Ingest(error.into())
    }
}

fn only_for(platforms: &[Platform]) -> String {
    if platforms.is_empty() {
        return String::new();
    }
    let list: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    format!(", only for {}", list.join(", "))
}

/// What the archive says about one image.
#[derive(Debug)]
struct Planned {
    config: String,
    config_digest: Option<Digest>,
    /// The names of the blobs, with the digests they should have.
    layers: Vec<(String, Option<Digest>)>,
    manifest: Option<Digest>,
    names: Vec<ImageName>,
}

impl ImageStore {
    /// Imports every image of an archive (OCI or docker, plain or compressed) that is for this machine. Afterwards,
    /// either all of them are in the store or the store is unchanged.
    pub fn import(
        &self,
        archive: &Path,
        options: &ImportOptions,
        progress: &Progress,
    ) -> Result<Vec<Image>, ImportError> {
        let result = match File::open(archive) {
            Ok(file) => import(self, file, options, progress),
            Err(error) => Err(ImportReason::Open(error)),
        };
        result.map_err(|reason| ImportError { archive: archive.to_owned(), reason })
    }
}

fn import(
    store: &ImageStore,
    file: File,
    options: &ImportOptions,
    progress: &Progress,
) -> Result<Vec<Image>, ImportReason> {
    if let Some(tag) = &options.tag {
        check_tag(tag)?;
    }
    let ingest = Ingest::begin(store, &options.limits)?;
    let archive = Archive::open(file, ingest.dir(), &options.limits)?;
    let mut planned = plan(&archive)?;
    if let Some(tag) = &options.tag {
        match planned.as_mut_slice() {
            [one] => one.names = vec![tag.clone()],
            several => return Err(ImportReason::OneTagForSeveral(several.len())),
        }
    }
    let mut images = Vec::new();
    for plan in planned {
        images.push(fetch(&archive, &ingest, plan, progress)?);
    }
    Ok(ingest.commit(images)?)
}

/// Reads what the archive says it holds.
fn plan(archive: &Archive) -> Result<Vec<Planned>, ImportReason> {
    let docker = archive.contains(DOCKER_MANIFEST);
    if !archive.contains(OCI_INDEX) {
        return if docker { plan_docker(archive) } else { Err(ImportReason::NotImages) };
    }
    let mut images = plan_oci(archive)?;
    if docker {
        // Newer archives are in both formats at once, and only docker's part has the full names.
        for old in plan_docker(archive)? {
            let digest = Digest::of(&document(archive, &old.config)?);
            for image in images.iter_mut().filter(|image| image.config_digest.as_ref() == Some(&digest)) {
                image.names.extend(old.names.iter().cloned());
            }
        }
    }
    for image in &mut images {
        image.names.sort();
        image.names.dedup();
    }
    Ok(images)
}

fn plan_docker(archive: &Archive) -> Result<Vec<Planned>, ImportReason> {
    let json = document(archive, DOCKER_MANIFEST)?;
    let images: Vec<DockerImage> = serde_json::from_slice(&json).map_err(|source| {
        ImportReason::Document { name: DOCKER_MANIFEST.to_owned(), source: source.into() }
    })?;
    if images.is_empty() {
        return Err(ImportReason::NoImage { wanted: Platform::host(), offered: Vec::new() });
    }
    if images.len() > MAX_IMAGES {
        return Err(ImportReason::Unreasonable);
    }
    let plan = |image: DockerImage| {
        let names = image.repo_tags.unwrap_or_default();
        Ok(Planned {
            // Since docker 25, a blob's path is its digest, so the blob can be verified against it.
            config_digest: digest_of_path(&image.config),
            config: image.config,
            layers: image
                .layers
                .unwrap_or_default()
                .into_iter()
                .map(|layer| (layer.clone(), digest_of_path(&layer)))
                .collect(),
            manifest: None,
            names: names.iter().map(|name| name.parse()).collect::<Result<_, NameError>>()?,
        })
    };
    images.into_iter().map(plan).collect()
}

fn digest_of_path(path: &str) -> Option<Digest> {
    Digest::from_hex(path.strip_prefix("blobs/sha256/")?).ok()
}

fn plan_oci(archive: &Archive) -> Result<Vec<Planned>, ImportReason> {
    let json = document(archive, OCI_INDEX)?;
    let top = match parse(&json, OCI_INDEX)? {
        Document::Index(index) => index,
        Document::Image(_) => return Err(ImportReason::NotImages),
    };
    let machine = Platform::host();
    // Keyed by manifest digest, since an image may be listed once for each of its names.
    let mut images: BTreeMap<Digest, Planned> = BTreeMap::new();
    let mut offered = Vec::new();
    // Entries that differ only in their platform are variants of one image; entries with names are separate images.
    let (named, nameless): (Vec<_>, Vec<_>) = top
        .manifests
        .into_iter()
        .filter(|entry| !entry.is_attestation())
        .partition(|entry| entry.name().is_some());
    let mut groups: BTreeMap<Option<ImageName>, Vec<Descriptor>> = BTreeMap::new();
    for entry in named {
        groups.entry(entry.name()).or_default().push(entry);
    }
    if nameless.iter().any(|entry| entry.platform.is_some()) {
        groups.entry(None).or_default().extend(nameless);
    } else {
        for entry in nameless {
            insert_image(archive, &[entry], None, &machine, &mut images, &mut offered)?;
        }
    }
    for (name, entries) in groups {
        insert_image(archive, &entries, name, &machine, &mut images, &mut offered)?;
    }
    if images.len() > MAX_IMAGES {
        return Err(ImportReason::Unreasonable);
    }
    if images.is_empty() {
        return Err(ImportReason::NoImage { wanted: machine, offered });
    }
    Ok(images.into_values().collect())
}

fn insert_image(
    archive: &Archive,
    entries: &[Descriptor],
    name: Option<ImageName>,
    machine: &Platform,
    images: &mut BTreeMap<Digest, Planned>,
    offered: &mut Vec<Platform>,
) -> Result<(), ImportReason> {
    let Some((digest, manifest)) = choose(archive, entries, machine, offered)? else { return Ok(()) };
    let planned = images.entry(digest.clone()).or_insert_with(|| Planned {
        config: blob_name(&manifest.config.digest),
        config_digest: Some(manifest.config.digest.clone()),
        layers: manifest
            .layers
            .iter()
            .map(|layer| (blob_name(&layer.digest), Some(layer.digest.clone())))
            .collect(),
        manifest: Some(digest),
        names: Vec::new(),
    });
    planned.names.extend(name);
    Ok(())
}

/// Follows nested indexes down to the manifest for this machine.
fn choose(
    archive: &Archive,
    entries: &[Descriptor],
    machine: &Platform,
    offered: &mut Vec<Platform>,
) -> Result<Option<(Digest, ImageManifest)>, ImportReason> {
    let mut entries = entries.to_vec();
    for _ in 0..MAX_NESTING {
        let Some(entry) = machine.choose(&entries, |entry| entry.platform.as_ref()) else {
            offered.extend(entries.into_iter().filter_map(|entry| entry.platform));
            return Ok(None);
        };
        let name = blob_name(&entry.digest);
        let json = document(archive, &name)?;
        let found = Digest::of(&json);
        if found != entry.digest {
            let wanted = entry.digest.clone();
            return Err(IngestError::Digest { what: "a manifest", wanted, found }.into());
        }
        match parse(&json, &name)? {
            Document::Image(manifest) => return Ok(Some((found, manifest))),
            Document::Index(ImageIndex { manifests }) => {
                entries = manifests.into_iter().filter(|entry| !entry.is_attestation()).collect();
            }
        }
    }
    Err(ImportReason::Unreasonable)
}

fn fetch(
    archive: &Archive,
    ingest: &Ingest,
    plan: Planned,
    progress: &Progress,
) -> Result<NewImage, ImportReason> {
    let json = document(archive, &plan.config)?;
    let (id, config) = read_config(&json, plan.config_digest.as_ref(), plan.layers.len())?;
    let sizes = plan
        .layers
        .iter()
        .zip(&config.diff_ids)
        .map(|((name, _), diff_id)| (diff_id.clone(), archive.blob(name).map_or(0, |(_, len)| len)));
    progress.tell(Event::Layers(sizes.collect()));
    for ((name, blob_digest), diff_id) in plan.layers.iter().zip(&config.diff_ids) {
        if ingest.has(diff_id)? {
            progress.tell(Event::Present(diff_id.clone()));
            continue;
        }
        let (blob, _) = archive.blob(name).ok_or_else(|| ImportReason::Missing(name.clone()))?;
        progress.tell(Event::Unpacking(diff_id.clone()));
        ingest.unpack(blob, blob_digest.as_ref(), diff_id)?;
        progress.tell(Event::Unpacked(diff_id.clone()));
    }
    let digests = match &plan.manifest {
        Some(manifest) => {
            let mut digests: Vec<ImageName> =
                plan.names.iter().map(|name| name.at_digest(manifest.clone())).collect();
            digests.dedup();
            digests
        }
        None => Vec::new(),
    };
    let tags = plan.names.into_iter().filter(|name| name.tag().is_some()).collect();
    Ok(NewImage { id, config, tags, digests })
}

fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn document(archive: &Archive, name: &str) -> Result<Vec<u8>, ImportReason> {
    let (mut section, len) = archive.blob(name).ok_or_else(|| ImportReason::Missing(name.to_owned()))?;
    if len > MAX_DOCUMENT {
        return Err(ImportReason::TooLarge(name.to_owned()));
    }
    let mut bytes = Vec::new();
    section.read_to_end(&mut bytes).map_err(|error| ImportReason::Tar(error.into()))?;
    Ok(bytes)
}

fn parse(json: &[u8], name: &str) -> Result<Document, ImportReason> {
    Document::parse(json).map_err(|source| ImportReason::Document { name: name.to_owned(), source })
}
