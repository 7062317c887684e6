//! The runtime, put together from its parts.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cni::Cni;
use super::error::{Error, Result};
use super::events::Events;
use super::facts::Facts;
use super::output::Memory;
use super::process;
use super::registry::Registry;
use super::room::Room;
use super::spec;
use super::store::{self, Layout};
use crate::image::ImageStore;

/// How to run the embedded runtime.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of the socket to create.
    pub socket: PathBuf,
    /// The folder of all state.
    pub data_dir: PathBuf,
    /// The folder of CNI configurations; without one, pods get loopback only.
    pub cni_conf_dir: Option<PathBuf>,
    /// The folders of CNI plugins.
    pub cni_bin_dirs: Vec<PathBuf>,
    /// The program that implements the shim's subcommands: this one, except in tests.
    pub shim: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            socket: PathBuf::from("/run/rubelet/runtime.sock"),
            data_dir: PathBuf::from("/var/lib/rubelet"),
            cni_conf_dir: None,
            cni_bin_dirs: vec![PathBuf::from("/opt/cni/bin"), PathBuf::from("/usr/lib/cni")],
            shim: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// Everything that an operation may need.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) layout: Layout,
    pub(crate) facts: Facts,
    pub(crate) registry: Registry,
    pub(crate) events: Events,
    pub(crate) images: ImageStore,
    pub(crate) cni: Option<Cni>,
    pub(crate) shim: PathBuf,
    /// The room for commands in containers.
    pub(crate) room: Room,
    /// The memory for their output.
    pub(crate) memory: Memory,
    said_oom_score: AtomicBool,
    _lock: File,
}

impl Runtime {
    /// Locks the data folder and reads the machine's facts. Nothing is recovered yet.
    pub(crate) fn open(options: &Options) -> Result<Arc<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::State(
                "containers need root: run as root (only `rubelet runtime` also works for \
                                     ordinary users)"
                    .to_owned(),
            ));
        }
        store::make_dir(&options.data_dir)?;
        let root = options
            .data_dir
            .canonicalize()
            .map_err(|error| Error::io(format!("find {}", options.data_dir.display()), error))?;
        let lock = store::lock(&root)?;
        let layout = Layout::new(root);
        store::make_dir(&layout.sandboxes())?;
        store::make_dir(&layout.containers())?;
        let images = ImageStore::open(layout.images()).map_err(|error| Error::Image(error.to_string()))?;
        let facts = Facts::read();
        // One per container, and a few per command.
        process::allow_all_open_files();
        Ok(Arc::new(Self {
            facts,
            registry: Registry::default(),
            events: Events::new(),
            images,
            cni: options.cni_conf_dir.as_ref().map(|dir| Cni::new(dir.clone(), options.cni_bin_dirs.clone())),
            shim: options.shim.clone(),
            room: Room::of_all(process::open_files()),
            memory: Memory::default(),
            said_oom_score: AtomicBool::new(false),
            layout,
            _lock: lock,
        }))
    }

    /// Logs once that scores are clamped.
    pub(crate) fn note_oom_score(&self, wanted: i64) {
        let given = spec::oom_score(wanted, &self.facts);
        if given != wanted && !self.said_oom_score.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                wanted,
                given,
                "not permitted to lower oom_score_adj (CAP_SYS_RESOURCE is missing): containers get at least {given}"
            );
        }
    }
}

/// Runs disk and mount operations on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Error::Internal(format!("a worker thread failed: {error}"))))
}

/// Runs an operation to its end, even if the caller disconnects in the meantime.
pub(crate) async fn unhurried<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work)
        .await
        .unwrap_or_else(|error| Err(Error::Internal(format!("an operation failed: {error}"))))
}
