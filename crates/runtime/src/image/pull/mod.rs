//! Pulls of images from a registry.
//!
//! Layers are fetched in parallel, each resumed after an interruption, and unpacked as they arrive. All content is
//! verified against what was requested: the manifest by its digest if the name has one, the configuration and the
//! layers by the digests in the manifest, and the unpacked layers by those in the configuration.

mod auth;
mod challenge;
mod download;
mod registry;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::digest::Digest;
use super::host;
use super::ingest::{Ingest, IngestError, NewImage, read_config};
use super::limits::Limits;
use super::manifest::{Document, ImageManifest, ManifestError};
use super::name::ImageName;
use super::platform::Platform;
use super::progress::{Event, Progress};
use super::record::Image;
use super::store::{ImageStore, StoreError};
pub use auth::{Auth, AuthError};
pub(crate) use download::sweep;
use download::{Download, Wanted};
use registry::Registry;

/// The largest accepted configuration: real ones are small.
const MAX_CONFIG: u64 = 8 << 20;
/// How deeply indexes may list further indexes.
const MAX_NESTING: usize = 4;
/// How many times a document is requested.
const ATTEMPTS: u32 = 3;

/// Options of a pull.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// The credentials.
    pub auth: Auth,
    /// Registries besides loopback that use plain HTTP, as written in image names: `registry.lan:5000`.
    pub http_registries: Vec<String>,
    /// How many layers are fetched at a time.
    pub parallel: usize,
    /// How long a connection may be silent before it is closed and a new one is opened.
    pub stall_timeout: Duration,
    /// The pause before the first retry; it doubles with every further one.
    pub retry_pause: Duration,
    /// The limits on what the image may use.
    pub limits: Limits,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            auth: Auth::Anonymous,
            http_registries: Vec::new(),
            parallel: 3,
            stall_timeout: Duration::from_secs(60),
            retry_pause: Duration::from_millis(500),
            limits: Limits::default(),
        }
    }
}

/// The error of a pull. The store is left as it was, except for partial layers that the next attempt will resume.
#[derive(Debug, thiserror::Error)]
#[error("cannot pull {image}: {reason}")]
pub struct PullError {
    /// The image.
    pub image: ImageName,
    /// What went wrong.
    #[source]
    pub reason: PullReason,
}

/// The reason why an image was not pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullReason {
    /// There is no such repository, tag or digest.
    #[error("the registry has no such image: check the name and tag")]
    NotFound,
    /// Credentials are missing or wrong.
    #[error("access denied by the registry: the image does not exist, or credentials are missing or wrong")]
    Unauthorized,
    /// The registry could not be reached.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// The connection broke.
    #[error("the transfer was interrupted: {0}")]
    Interrupted(#[source] io::Error),
    /// The connection went silent.
    #[error("no data received for {} seconds", .0.as_secs())]
    Stalled(Duration),
    /// The registry asked us to try again later.
    #[error("the registry is busy: {0}")]
    Busy(String),
    /// The registry refused, for a reason of its own.
    #[error("the registry refused the request: {0}")]
    Refused(String),
    /// A manifest or index cannot be used.
    #[error("its manifest cannot be used: {0}")]
    Manifest(#[from] ManifestError),
    /// The image was not built for this machine.
    #[error("the image is not available for {wanted}, only for {}", list(.offered))]
    NoVariant {
        /// The platform of this machine.
        wanted: Platform,
        /// The platforms it was built for.
        offered: Vec<Platform>,
    },
    /// Indexes are nested too deeply.
    #[error("its index is nested too deeply")]
    Unreasonable,
    /// The content is not what was requested.
    #[error("the registry sent {found} for {wanted}")]
    Digest {
        /// The digest that was requested.
        wanted: Digest,
        /// The digest of what arrived.
        found: Digest,
    },
    /// There is more than was announced, or more than is plausible.
    #[error("{digest} is larger than {limit} bytes")]
    TooLarge {
        /// The blob.
        digest: Digest,
        /// The limit.
        limit: u64,
    },
    /// The disk is nearly full.
    #[error("not enough disk space: {missing} bytes are needed, {free} are free")]
    NoSpace {
        /// The number of bytes still to come.
        missing: u64,
        /// The number of bytes that are free.
        free: u64,
    },
    /// A configuration or layer was refused.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A task of the pull panicked or was aborted.
    #[error("an internal task failed: {0}")]
    Task(#[from] JoinError),
}

impl From<StoreError> for PullReason {
    fn from(error: StoreError) -> Self {
        Self::Ingest(error.into())
    }
}

impl PullReason {
    /// Returns whether the same attempt may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Interrupted(_) | Self::Stalled(_) | Self::Busy(_))
    }
}

fn list(platforms: &[Platform]) -> String {
    let list: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    list.join(", ")
}

impl ImageStore {
    /// Pulls an image, or what is missing of it, into the store. Dropping the future cancels the pull.
    pub async fn pull(
        &self,
        name: &ImageName,
        options: &PullOptions,
        progress: &Progress,
    ) -> Result<Image, PullError> {
        if host::is_named_by(name) {
            return Ok(host::image());
        }
        pull(self, name, options, progress).await.map_err(|reason| PullError { image: name.clone(), reason })
    }
}

async fn pull(
    store: &ImageStore,
    name: &ImageName,
    options: &PullOptions,
    progress: &Progress,
) -> Result<Image, PullReason> {
    let ingest = {
        let (store, limits) = (store.clone(), options.limits.clone());
        tokio::task::spawn_blocking(move || {
            sweep(&store)?;
            Ingest::begin(&store, &limits)
        })
        .await??
    };
    let registry = Registry::new(name, options)?;
    patiently(options, || registry.log_in()).await?;
    let Found { top, own, manifest } = patiently(options, || find(&registry)).await?;
    let json = patiently(options, || registry.document(&manifest.config.digest, MAX_CONFIG)).await?;
    let (id, config) = read_config(&json, Some(&manifest.config.digest), manifest.layers.len())?;

    progress.tell(Event::Layers(
        manifest.layers.iter().map(|layer| (layer.digest.clone(), layer.size)).collect(),
    ));
    let permits = Arc::new(Semaphore::new(options.parallel.max(1)));
    let mut tasks = JoinSet::new();
    let mut seen = BTreeSet::new();
    for (layer, diff_id) in manifest.layers.iter().zip(&config.diff_ids) {
        // The same layer may be listed twice.
        if !seen.insert(diff_id.clone()) {
            continue;
        }
        let job = Job {
            ingest: ingest.clone(),
            store: store.clone(),
            registry: registry.clone(),
            wanted: Wanted { digest: layer.digest.clone(), size: layer.size },
            diff_id: diff_id.clone(),
            options: options.clone(),
            progress: progress.clone(),
        };
        let permits = Arc::clone(&permits);
        tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            job.run().await
        });
    }
    let mut blobs = Vec::new();
    while let Some(result) = tasks.join_next().await {
        // The first failure ends the other tasks, by dropping the set.
        blobs.extend(result??);
    }
    let digests = BTreeSet::from([top, own]);
    let image = NewImage {
        id,
        config,
        tags: name.tag().map(|_| name.clone()).into_iter().collect(),
        digests: digests.into_iter().map(|digest| name.at_digest(digest)).collect(),
    };
    let mut images = tokio::task::spawn_blocking(move || {
        let images = ingest.commit(vec![image])?;
        download::remove(&blobs);
        Ok::<_, StoreError>(images)
    })
    .await??;
    Ok(images.remove(0))
}

/// Retries where that may help. An unreachable registry is reported immediately: the user can do more about it than a
/// retry.
async fn patiently<T, Asked>(options: &PullOptions, ask: impl Fn() -> Asked) -> Result<T, PullReason>
where
    Asked: Future<Output = Result<T, PullReason>>,
{
    let mut pause = options.retry_pause;
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(reason) if reason.is_transient() && !matches!(reason, PullReason::Unreachable(_)) => {
                tracing::debug!(%reason, "retrying a request to the registry");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            other => return other,
        }
    }
    ask().await
}

/// The manifest for this machine.
struct Found {
    /// The digest that the name refers to, which may be that of an index.
    top: Digest,
    /// The digest of the manifest itself.
    own: Digest,
    manifest: ImageManifest,
}

async fn find(registry: &Registry) -> Result<Found, PullReason> {
    let machine = Platform::host();
    let (top, mut bytes) = registry.manifest(None).await?;
    let mut own = top.clone();
    for _ in 0..MAX_NESTING {
        match Document::parse(&bytes)? {
            Document::Image(manifest) => return Ok(Found { top, own, manifest }),
            Document::Index(index) => {
                let entries: Vec<_> =
                    index.manifests.into_iter().filter(|entry| !entry.is_attestation()).collect();
                let Some(entry) = machine.choose(&entries, |entry| entry.platform.as_ref()) else {
                    let offered = entries.into_iter().filter_map(|entry| entry.platform).collect();
                    return Err(PullReason::NoVariant { wanted: machine, offered });
                };
                (own, bytes) = registry.manifest(Some(&entry.digest)).await?;
            }
        }
    }
    Err(PullReason::Unreasonable)
}

/// The work on one layer: fetch it, then unpack it.
struct Job {
    ingest: Ingest,
    store: ImageStore,
    registry: Registry,
    wanted: Wanted,
    diff_id: Digest,
    options: PullOptions,
    progress: Progress,
}

impl Job {
    /// Returns the path of the downloaded blob, or `None` if the layer was in the store already.
    async fn run(self) -> Result<Option<PathBuf>, PullReason> {
        let mut second_try = false;
        loop {
            if self.is_present().await? {
                self.progress.tell(Event::Present(self.wanted.digest.clone()));
                return Ok(None);
            }
            let claimed = download::claim(&self.store, &self.wanted).await?;
            // While we waited for another pull of this layer, that pull may have finished and removed the blob.
            if self.is_present().await? {
                self.progress.tell(Event::Present(self.wanted.digest.clone()));
                return Ok(Some(claimed.path().to_owned()));
            }
            let download =
                download::fetch(claimed, &self.registry, &self.wanted, &self.options, &self.progress).await?;
            self.progress.tell(Event::Unpacking(self.wanted.digest.clone()));
            let (result, download) = self.unpack(download).await?;
            match result {
                Ok(()) => {
                    self.progress.tell(Event::Unpacked(self.wanted.digest.clone()));
                    return Ok(Some(download.path().to_owned()));
                }
                Err(error) => {
                    // The bad bytes may stem from an earlier attempt that was resumed, so try once more from the
                    // beginning.
                    let damaged = matches!(error, IngestError::Digest { what: "a layer's blob", .. });
                    let path = download.path().to_owned();
                    download.discard().map_err(StoreError::io("cannot empty", &path))?;
                    if second_try || !damaged {
                        return Err(error.into());
                    }
                    second_try = true;
                    let reason = error.to_string();
                    self.progress.tell(Event::Retrying { layer: self.wanted.digest.clone(), reason });
                }
            }
        }
    }

    async fn is_present(&self) -> Result<bool, PullReason> {
        let (ingest, diff_id) = (self.ingest.clone(), self.diff_id.clone());
        Ok(tokio::task::spawn_blocking(move || ingest.has(&diff_id)).await??)
    }

    async fn unpack(&self, download: Download) -> Result<(Result<(), IngestError>, Download), PullReason> {
        let (ingest, wanted, diff_id) =
            (self.ingest.clone(), self.wanted.digest.clone(), self.diff_id.clone());
        Ok(tokio::task::spawn_blocking(move || {
            let result = rewound(&download).and_then(|blob| ingest.unpack(blob, Some(&wanted), &diff_id));
            (result, download)
        })
        .await?)
    }
}

/// Returns a reader of the blob from its beginning, without moving the descriptor that writes at its end.
fn rewound(download: &Download) -> Result<impl io::Read, IngestError> {
    let fd = download.file.as_fd().try_clone_to_owned();
    let file = fd.map(std::fs::File::from).and_then(|mut file| {
        io::Seek::seek(&mut file, io::SeekFrom::Start(0))?;
        Ok(io::BufReader::with_capacity(128 * 1024, file))
    });
    file.map_err(|error| StoreError::io("cannot read", download.path())(error).into())
}
