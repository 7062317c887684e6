//! A synthetic runtime without a socket: the same world and the same behaviour, through plain calls.
//!
//! It is meant for tests that play thousands of histories. The answer of a call is a value, only events are encoded,
//! and no time passes except tokio's, which may be paused.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rubelet_cri::{ContainerEntry, ContainerList, ListFilter, PodListing, SandboxEntry, SandboxList, v1};
use rubelet_model::{ContainerId, SandboxId, SandboxState, UnixNanos};
use tonic::Status;

use super::bus::{Bus, Events, Reader};
use super::profile::{EventSupport, Profile};
use super::seed::Seed;
use super::world::{Container, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, Restart, Sandbox, World};

/// A synthetic runtime in this process. Clones refer to the same runtime.
#[derive(Clone)]
pub struct LocalRuntime {
    shared: Arc<Shared>,
    events: Events,
}

struct Shared {
    world: Mutex<World>,
    bus: Arc<Bus>,
    is_down: AtomicBool,
    /// What a client would number its connections with.
    epoch: AtomicU64,
}

impl LocalRuntime {
    /// Creates an empty node under this runtime. Delayed events wait on the current tokio runtime.
    #[must_use]
    pub fn new(profile: Profile, seed: u64) -> Self {
        let world = World::new(profile, seed);
        let bus = Bus::new(world.quirks().events, Seed(seed));
        let shared = Shared {
            world: Mutex::new(world),
            bus: bus.clone(),
            is_down: AtomicBool::new(false),
            epoch: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared), events: Events::over(bus) }
    }

    /// Reads or changes the world, and sends the resulting events.
    pub fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.shared.world.lock();
        let result = change(&mut world);
        self.shared.bus.publish(world.take_events());
        result
    }

    /// Returns the event streams, whose events can also be tampered with.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Goes down as if killed: calls fail and streams break. The world continues, but nobody announces what happens in
    /// it.
    pub fn go_down(&self) {
        self.shared.is_down.store(true, Ordering::Relaxed);
        self.world(|world| world.set_down(true));
        self.shared.bus.restart();
    }

    /// Comes up again. The number of calls that find it still starting is ignored: it applies to servers with a socket
    /// only.
    pub fn come_up(&self, how: &Restart) {
        self.world(|world| {
            world.restart(how);
            world.set_down(false);
        });
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
        self.shared.is_down.store(false, Ordering::Relaxed);
    }

    /// Returns what the two lists show together.
    ///
    /// # Errors
    /// While it is down.
    pub fn list(&self, filter: ListFilter<'_>) -> Result<PodListing, Status> {
        self.ask(|world, epoch| {
            let selector: HashMap<String, String> = match filter {
                ListFilter::All => HashMap::new(),
                ListFilter::Pod(uid) => [(POD_UID_LABEL.to_owned(), uid.as_str().to_owned())].into(),
            };
            let (mut sandboxes, mut containers) = <(SandboxList, ContainerList)>::default();
            (sandboxes.epoch, containers.epoch) = (epoch, epoch);
            let of_sandboxes =
                v1::PodSandboxFilter { label_selector: selector.clone(), ..Default::default() };
            for listed in world.list_sandboxes(Some(&of_sandboxes)) {
                sandboxes.push(sandbox_entry(listed.about));
            }
            let of_containers = v1::ContainerFilter { label_selector: selector, ..Default::default() };
            for listed in world.list_containers(Some(&of_containers)) {
                containers.push(container_entry(listed.about));
            }
            Ok(rubelet_cri::assemble(&sandboxes, &containers))
        })
    }

    /// Returns the status of a sandbox.
    ///
    /// # Errors
    /// While it is down, and if there is no such sandbox.
    pub fn sandbox_status(&self, id: &SandboxId) -> Result<v1::PodSandboxStatusResponse, Status> {
        self.ask(|world, _| {
            let found = world.find_sandbox(id.as_str());
            let sandbox = found.map_err(|none| none.into_status("sandbox", id.as_str()))?;
            Ok(world.sandbox_answer(sandbox, false))
        })
    }

    /// Returns the status of a container.
    ///
    /// # Errors
    /// While it is down, and if there is no such container.
    pub fn container_status(&self, id: &ContainerId) -> Result<v1::ContainerStatusResponse, Status> {
        self.ask(|world, _| {
            let found = world.find_container(id.as_str());
            let container = found.map_err(|none| none.into_status("container", id.as_str()))?;
            Ok(world.container_answer(container, false))
        })
    }

    /// Opens an event stream.
    ///
    /// # Errors
    /// While it is down, and if this runtime has no event stream.
    pub fn container_events(&self) -> Result<LocalEvents, Status> {
        match self.ask(|world, _| Ok(world.quirks().events))? {
            EventSupport::Unimplemented => Err(Status::unimplemented("unknown method GetContainerEvents")),
            EventSupport::EndsAtOnce => Ok(LocalEvents(None)),
            EventSupport::Stream(_) => Ok(LocalEvents(Some(Reader::open(self.shared.bus.clone())))),
        }
    }

    fn ask<T>(&self, question: impl FnOnce(&mut World, u64) -> Result<T, Status>) -> Result<T, Status> {
        if self.shared.is_down.load(Ordering::Relaxed) {
            return Err(Status::unavailable("nobody listens"));
        }
        question(&mut self.shared.world.lock(), self.shared.epoch.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalRuntime").field("events", &self.events).finish_non_exhaustive()
    }
}

/// An open event stream of a [`LocalRuntime`].
pub struct LocalEvents(Option<Reader>);

impl LocalEvents {
    /// Waits for the next event; `None` when the stream has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<v1::ContainerEventResponse, Status>> {
        let next = self.0.as_ref()?.next().await?;
        Some(next.map(|parcel| parcel.event.message.clone()))
    }
}

impl std::fmt::Debug for LocalEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalEvents").finish_non_exhaustive()
    }
}

fn sandbox_entry(sandbox: &Sandbox) -> SandboxEntry<'_> {
    let config = sandbox.config();
    let label = |key: &str| config.labels.get(key).map_or("", String::as_str);
    let (uid, namespace, name) = config.metadata.as_ref().map_or(("", "", ""), |metadata| {
        (metadata.uid.as_str(), metadata.namespace.as_str(), metadata.name.as_str())
    });
    SandboxEntry {
        id: sandbox.id().as_str(),
        pod_uid: uid,
        pod_namespace: namespace,
        pod_name: name,
        selectable: !uid.is_empty() && label(POD_UID_LABEL) == uid,
        attempt: sandbox.attempt(),
        // The protocol cannot express the third state.
        state: match sandbox.state() {
            SandboxState::Ready => SandboxState::Ready,
            SandboxState::NotReady | SandboxState::Unknown => SandboxState::NotReady,
        },
        created_at: UnixNanos(sandbox.created_at()),
        damaged: false,
    }
}

fn container_entry(container: &Container) -> ContainerEntry<'_> {
    let label = |key: &str| container.config().labels.get(key).map_or("", String::as_str);
    ContainerEntry {
        id: container.id().as_str(),
        sandbox: container.sandbox().as_str(),
        name: container.name(),
        pod_uid: label(POD_UID_LABEL),
        pod_namespace: label(POD_NAMESPACE_LABEL),
        pod_name: label(POD_NAME_LABEL),
        attempt: container.attempt(),
        state: container.state(),
        created_at: UnixNanos(container.created_at()),
        damaged: false,
    }
}
