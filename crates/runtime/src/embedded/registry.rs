//! All sandboxes and containers, in memory.
//!
//! Lists read nothing else. Its lock is held only while the maps are read or changed, never across an await or a system
//! call, so no container's problem can delay a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rubelet_cri::v1;
use tokio::sync::watch;

use super::error::{Error, Result};
use super::id::{self, Found};
use super::record::{ContainerRecord, SandboxRecord};
use super::room::Room;
use super::spec;
use super::state::{ContainerState, SandboxState};

/// A sandbox that exists.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) config: v1::PodSandboxConfig,
    pub(crate) record: RwLock<SandboxRecord>,
    /// Held while the sandbox is changed.
    pub(crate) work: tokio::sync::Mutex<()>,
}

impl Sandbox {
    pub(crate) fn new(record: SandboxRecord, config: v1::PodSandboxConfig) -> Arc<Self> {
        Arc::new(Self {
            id: record.id.clone(),
            config,
            record: RwLock::new(record),
            work: tokio::sync::Mutex::new(()),
        })
    }

    pub(crate) fn state(&self) -> SandboxState {
        self.record.read().state
    }

    pub(crate) fn name(&self) -> String {
        let meta = self.config.metadata.clone().unwrap_or_default();
        format!("{}_{}_{}_{}", meta.name, meta.namespace, meta.uid, meta.attempt)
    }
}

/// A container that exists.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) record: ContainerRecord,
    pub(crate) config: v1::ContainerConfig,
    /// The signal that asks it to stop, whether the request, the image or the default chose it.
    pub(crate) stop_signal: v1::Signal,
    /// The limits as last requested: the only part of a config that changes.
    pub(crate) resources: Mutex<Option<v1::LinuxContainerResources>>,
    /// Written by the operation that starts it, then by the one task that watches its shim.
    pub(crate) state: watch::Sender<ContainerState>,
    /// Held while the container is started, updated or removed. Not held by a stop: two stops may wait side by side.
    pub(crate) work: tokio::sync::Mutex<()>,
    /// The room for commands in it.
    pub(crate) room: Room,
}

impl Container {
    pub(crate) fn new(
        record: ContainerRecord,
        config: v1::ContainerConfig,
        state: ContainerState,
        room: Room,
    ) -> Arc<Self> {
        Arc::new(Self {
            stop_signal: spec::signal_name(record.stop_signal),
            resources: Mutex::new(config.linux.as_ref().and_then(|linux| linux.resources.clone())),
            record,
            config,
            state: watch::Sender::new(state),
            work: tokio::sync::Mutex::new(()),
            room,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    pub(crate) fn state(&self) -> ContainerState {
        self.state.borrow().clone()
    }

    pub(crate) fn name(&self, sandbox: &Sandbox) -> String {
        let meta = self.config.metadata.clone().unwrap_or_default();
        container_name(&meta, sandbox)
    }
}

/// Returns the name of a container, which is unique per container name and attempt in a pod.
pub(crate) fn container_name(meta: &v1::ContainerMetadata, sandbox: &Sandbox) -> String {
    let pod = sandbox.config.metadata.clone().unwrap_or_default();
    format!("{}_{}_{}_{}_{}", meta.name, pod.name, pod.namespace, pod.uid, meta.attempt)
}

#[derive(Debug, Default)]
struct Tables {
    sandboxes: BTreeMap<String, Arc<Sandbox>>,
    containers: BTreeMap<String, Arc<Container>>,
    by_sandbox: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<String, String>,
}

/// All objects and their names.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    tables: RwLock<Tables>,
}

impl Registry {
    /// Reserves a name for an object that is about to be created.
    pub(crate) fn reserve(&self, name: &str, holder: &str) -> Result<()> {
        let mut tables = self.tables.write();
        match tables.names.get(name) {
            Some(other) => Err(Error::NameTaken { name: name.to_owned(), holder: other.clone() }),
            None => {
                tables.names.insert(name.to_owned(), holder.to_owned());
                Ok(())
            }
        }
    }

    /// Releases a name, if this holder has it.
    pub(crate) fn release(&self, name: &str, holder: &str) {
        let mut tables = self.tables.write();
        if tables.names.get(name).is_some_and(|current| current == holder) {
            tables.names.remove(name);
        }
    }

    pub(crate) fn add_sandbox(&self, sandbox: Arc<Sandbox>) {
        self.tables.write().sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    /// Adds a container. Its sandbox must exist, and the caller must hold its lock.
    pub(crate) fn add_container(&self, container: Arc<Container>) {
        let mut tables = self.tables.write();
        let (id, sandbox) = (container.record.id.clone(), container.record.sandbox.clone());
        tables.by_sandbox.entry(sandbox).or_default().insert(id.clone());
        tables.containers.insert(id, container);
    }

    pub(crate) fn drop_sandbox(&self, id: &str) {
        let mut tables = self.tables.write();
        tables.sandboxes.remove(id);
        tables.by_sandbox.remove(id);
    }

    pub(crate) fn drop_container(&self, id: &str) {
        let mut tables = self.tables.write();
        if let Some(container) = tables.containers.remove(id)
            && let Some(siblings) = tables.by_sandbox.get_mut(&container.record.sandbox)
        {
            siblings.remove(id);
        }
    }

    /// Finds a sandbox by its id or an unambiguous prefix.
    pub(crate) fn sandbox(&self, wanted: &str) -> Result<Arc<Sandbox>> {
        let tables = self.tables.read();
        look_up(&tables.sandboxes, wanted, "pod sandbox")
    }

    /// Finds a container by its id or an unambiguous prefix.
    pub(crate) fn container(&self, wanted: &str) -> Result<Arc<Container>> {
        let tables = self.tables.read();
        look_up(&tables.containers, wanted, "container")
    }

    pub(crate) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        self.tables.read().sandboxes.values().cloned().collect()
    }

    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        self.tables.read().containers.values().cloned().collect()
    }

    pub(crate) fn containers_of(&self, sandbox: &str) -> Vec<Arc<Container>> {
        let tables = self.tables.read();
        let ids = tables.by_sandbox.get(sandbox).into_iter().flatten();
        ids.filter_map(|id| tables.containers.get(id).cloned()).collect()
    }
}

fn look_up<T>(table: &BTreeMap<String, Arc<T>>, wanted: &str, kind: &'static str) -> Result<Arc<T>> {
    if let Some(found) = table.get(wanted) {
        return Ok(Arc::clone(found));
    }
    // The keys are ordered, so all that have this prefix are adjacent.
    let candidates = table
        .range(wanted.to_owned()..)
        .map(|(key, _)| key)
        .take_while(|key| key.starts_with(wanted))
        .take(2);
    match id::find(candidates, wanted) {
        Found::One(id) => Ok(Arc::clone(&table[id])),
        Found::None => Err(Error::NotFound { kind, id: wanted.to_owned() }),
        Found::Ambiguous => Err(Error::Ambiguous { kind, id: wanted.to_owned() }),
    }
}
