//! What the pods of an upheaval run on, and how it is killed.

use std::process::Command;

use rubelet_cri::{Endpoint, ListFilter, Metrics, Options, RuntimeClient};
use rubelet_model::ContainerState;
use rubelet_testbed::{BUSYBOX, Containerd, Embedded, Flavor, require};

use crate::node::Node;

/// A runtime, outside the agent or inside it.
pub(super) enum Ground {
    /// The embedded runtime, in the agent's process.
    Inside,
    /// The embedded runtime as a process of its own.
    Beside(Embedded),
    Containerd(Containerd),
}

impl Ground {
    pub(super) fn beside() -> Option<Self> {
        let runtime = Embedded::start("upheaval", |place| {
            let mut runtime = Command::new(env!("CARGO_BIN_EXE_rubelet"));
            runtime.arg("runtime").arg("--socket").arg(place.socket()).arg("--data-dir").arg(place.data());
            runtime.env("RUST_LOG", "error");
            runtime
        });
        runtime.map(Self::Beside)
    }

    pub(super) fn containerd() -> Option<Self> {
        require(Flavor::V2).map(Self::Containerd)
    }

    pub(super) fn image(&self) -> &'static str {
        match self {
            Self::Inside | Self::Beside(_) => "host",
            Self::Containerd(_) => BUSYBOX,
        }
    }

    /// Returns the endpoint to give to the agent, if any.
    pub(super) fn endpoint(&self) -> Option<String> {
        match self {
            Self::Inside => None,
            Self::Beside(runtime) => Some(format!("unix://{}", runtime.socket().display())),
            Self::Containerd(containerd) => Some(containerd.endpoint()),
        }
    }

    /// Whether it can be killed separately from the agent.
    pub(super) fn is_apart(&self) -> bool {
        !matches!(self, Self::Inside)
    }

    pub(super) fn kill(&mut self) {
        match self {
            Self::Inside => {}
            Self::Beside(runtime) => runtime.kill(),
            Self::Containerd(containerd) => containerd.kill().expect("it ran"),
        }
    }

    pub(super) fn come_back(&mut self) {
        match self {
            Self::Inside => {}
            Self::Beside(runtime) => runtime.launch(),
            Self::Containerd(containerd) => containerd.start_again().expect("it comes back"),
        }
    }
}

/// Asks the runtime directly, independently of the agent.
pub(super) struct Inspector {
    client: RuntimeClient,
    tokio: tokio::runtime::Runtime,
}

/// What a runtime knows of a pod.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) ids: Vec<String>,
    /// The names of running containers, each with its sandbox.
    pub(super) running: Vec<(String, String)>,
}

impl Inspector {
    pub(super) fn new(ground: &Ground, node: &Node) -> Self {
        let inside = || format!("unix://{}", node.path("data/runtime.sock").display());
        let endpoint: Endpoint = ground.endpoint().unwrap_or_else(inside).parse().expect("an endpoint");
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
        let client =
            tokio.block_on(async { RuntimeClient::new(endpoint, Options::default(), Metrics::default()) });
        Self { client, tokio }
    }

    /// Returns everything; `None` if the runtime is down.
    pub(super) fn look(&self) -> Option<Vec<Found>> {
        let listing = self.tokio.block_on(self.client.list_pods(&ListFilter::All)).ok()?;
        let found = listing.pods.iter().map(|pod| {
            let sandboxes = pod.sandboxes.iter().map(|sandbox| sandbox.id.to_string());
            let containers = pod.containers.iter().map(|container| container.id.to_string());
            let runs = pod.containers.iter().filter(|container| container.state == ContainerState::Running);
            Found {
                ids: sandboxes.chain(containers).collect(),
                running: runs.map(|one| (one.sandbox.to_string(), one.name.to_string())).collect(),
            }
        });
        Some(found.collect())
    }
}
