//! The virtual node: sandboxes and containers with states, and nothing behind them.
//!
//! [`World`] is a plain value. A test changes it with one-liners ([`World::add_pod`], [`World::exit`],
//! [`World::remove`], …), and a server answers calls from it. Each change moves the world's own wall clock a little, is
//! recorded in [`World::history`], and produces the container events that the simulated runtime would send
//! ([`World::take_events`]).
//!
//! ```
//! use rubelet_runtime::synthetic::{ContainerState, Profile, World};
//!
//! let mut world = World::new(Profile::Ctd2, 1);
//! let pod = world.add_pod("default/web");
//! let container = world.run(&pod.sandbox, "nginx");
//! world.exit(&container, 1);
//! assert_eq!(world.container(&container).unwrap().state(), ContainerState::Exited);
//! ```

mod behavior;
mod change;
mod container;
mod containers;
mod event;
mod id;
mod image;
mod index;
mod kubelet;
mod list;
mod pods;
mod request;
mod restart;
mod sandbox;
mod status;
mod stir;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use rubelet_model::{ContainerId, PodUid, SandboxId};

pub use behavior::{Behavior, ExecResult, OnStart, OnStop};
pub use container::Container;
pub use event::{CriEvent, EventKind};
pub use kubelet::{ContainerSpec, PodSpec};
pub use restart::Restart;
pub use sandbox::Sandbox;
pub use stir::Stir;

use super::profile::{Profile, Quirks};
use super::seed::Seed;
use behavior::Scripts;
use id::{NoSuch, by_prefix};
use image::Images;
use index::LabelIndex;
use restart::Hidden;

pub use change::{Change, Exit, What};
pub(crate) use kubelet::{POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};

/// 2026-01-01T00:00:00Z, where the world's clock starts.
const EPOCH: i64 = 1_767_225_600_000_000_000;
/// How far one change moves the clock, so that no two changes have the same time.
const TICK: i64 = 1_000_000;

/// The virtual node.
#[derive(Debug)]
pub struct World {
    quirks: Quirks,
    seed: Seed,
    /// The wall clock, in nanoseconds since 1970. It may be set back.
    clock: i64,
    /// The number of ids assigned, so that each is new.
    ids_made: u64,
    /// The number of sandboxes created, so that each has an address of its own.
    sandboxes_made: u32,
    /// The number of process ids that containers claim to run as.
    pids_made: u32,
    /// The number of random steps taken, so that each is different.
    steps_made: u64,
    /// The number of lists answered, so that each has an order of its own.
    lists_made: u64,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    containers: BTreeMap<ContainerId, Container>,
    /// The sandboxes of each pod.
    pods: HashMap<PodUid, BTreeSet<SandboxId>>,
    sandbox_labels: LabelIndex<SandboxId>,
    container_labels: LabelIndex<ContainerId>,
    history: Vec<Change>,
    events: Vec<CriEvent>,
    events_made: u64,
    /// Whether changes are neither announced nor recorded.
    quiet: bool,
    /// Whether the runtime is down: changes happen, but nobody announces them.
    down: bool,
    hidden: Hidden,
    scripts: Scripts,
    images: Images,
    conditions: [Option<String>; 2],
}

/// The result of [`World::add_pod`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// The pod's key: its UID, or the sandbox's id for a pod created by hand.
    pub uid: PodUid,
    /// Its first sandbox.
    pub sandbox: SandboxId,
    /// Its containers, in the order of the spec.
    pub containers: Vec<ContainerId>,
}

impl World {
    /// Creates an empty node under this runtime.
    #[must_use]
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::with_quirks(profile.quirks(), seed)
    }

    /// Creates an empty node under a runtime with these quirks.
    #[must_use]
    pub fn with_quirks(quirks: Quirks, seed: u64) -> Self {
        Self {
            quirks,
            seed: Seed(seed),
            clock: EPOCH,
            ids_made: 0,
            sandboxes_made: 0,
            pids_made: 0,
            steps_made: 0,
            lists_made: 0,
            sandboxes: BTreeMap::new(),
            containers: BTreeMap::new(),
            pods: HashMap::new(),
            sandbox_labels: LabelIndex::default(),
            container_labels: LabelIndex::default(),
            history: Vec::new(),
            events: Vec::new(),
            events_made: 0,
            quiet: false,
            down: false,
            hidden: Hidden::default(),
            scripts: Scripts::default(),
            images: Images::default(),
            conditions: [None, None],
        }
    }

    /// Returns how the simulated runtime differs from others.
    #[must_use]
    pub fn quirks(&self) -> &Quirks {
        &self.quirks
    }

    /// Makes changes without events and without history, for what was there before anyone looked.
    pub fn quietly<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.quiet, true);
        let result = change(self);
        self.quiet = before;
        result
    }

    /// Sets whether the runtime reports itself as ready; if not, why.
    pub fn set_runtime_ready(&mut self, not_ready_because: Option<&str>) {
        self.conditions[0] = not_ready_because.map(str::to_owned);
    }

    /// Sets whether the runtime reports the pod network as ready; if not, why.
    pub fn set_network_ready(&mut self, not_ready_because: Option<&str>) {
        self.conditions[1] = not_ready_because.map(str::to_owned);
    }

    /// Why the runtime and the network, in this order, are not ready.
    pub(crate) fn conditions(&self) -> &[Option<String>; 2] {
        &self.conditions
    }

    /// The wall clock of this world, in nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.clock
    }

    /// Advances the wall clock.
    pub fn advance(&mut self, by: Duration) {
        self.clock += i64::try_from(by.as_nanos()).expect("a virtual clock is not moved by centuries");
    }

    /// Sets the wall clock, possibly back, as an administrator or ntpd would.
    pub fn set_clock(&mut self, unix_nanos: i64) {
        self.clock = unix_nanos;
    }

    /// Advances the clock by one change.
    fn tick(&mut self) -> i64 {
        self.clock += TICK;
        self.clock
    }

    /// A sandbox by its full id.
    #[must_use]
    pub fn sandbox(&self, id: &SandboxId) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    /// A container by its full id.
    #[must_use]
    pub fn container(&self, id: &ContainerId) -> Option<&Container> {
        self.containers.get(id)
    }

    /// Finds a sandbox by its id or the beginning of it.
    pub(crate) fn find_sandbox(&self, id: &str) -> Result<&Sandbox, NoSuch> {
        by_prefix(&self.sandboxes, id)
    }

    /// Finds a container by its id or the beginning of it.
    pub(crate) fn find_container(&self, id: &str) -> Result<&Container, NoSuch> {
        by_prefix(&self.containers, id)
    }

    /// All sandboxes, by id.
    pub fn sandboxes(&self) -> impl ExactSizeIterator<Item = &Sandbox> {
        self.sandboxes.values()
    }

    /// All containers, by id.
    pub fn containers(&self) -> impl ExactSizeIterator<Item = &Container> {
        self.containers.values()
    }

    /// The containers of one sandbox, oldest first.
    pub fn containers_of(&self, sandbox: &SandboxId) -> impl Iterator<Item = &Container> {
        let ids = self.sandboxes.get(sandbox).map_or(&[][..], Sandbox::containers);
        ids.iter().filter_map(|id| self.containers.get(id))
    }

    /// The sandboxes of one pod, by id.
    pub fn sandboxes_of(&self, pod: &PodUid) -> impl Iterator<Item = &Sandbox> + use<'_> {
        self.pods.get(pod).into_iter().flatten().map(|id| &self.sandboxes[id])
    }

    /// The keys of all pods, in no particular order.
    pub fn pods(&self) -> impl ExactSizeIterator<Item = &PodUid> {
        self.pods.keys()
    }

    /// The pod that a container belongs to.
    #[must_use]
    pub fn pod_of(&self, container: &ContainerId) -> Option<&PodUid> {
        let container = self.containers.get(container)?;
        self.sandboxes.get(container.sandbox()).map(Sandbox::pod)
    }

    /// What has happened so far, in order: the truth against which an observer is measured.
    #[must_use]
    pub fn history(&self) -> &[Change] {
        &self.history
    }

    /// Takes the events that the runtime would have sent since the previous call.
    pub fn take_events(&mut self) -> Vec<CriEvent> {
        std::mem::take(&mut self.events)
    }
}
