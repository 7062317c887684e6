//! How commands find the agent of this machine, or, if none runs, its runtime.

mod agent;

use std::path::PathBuf;

use rubelet_agent::volumes::{DataDirectory, Volumes};
use rubelet_cri::{Endpoint, EndpointError, Metrics, Options, RuntimeClient};

use crate::exit::Failure;
use crate::place::{LOOK, Place, PlaceError};
use crate::run::{Embedded, EmbeddedError};

pub(crate) use agent::{AgentClient, AgentError, PodInfo};

/// Where to look.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LocalArgs {
    #[command(flatten)]
    place: Place,
    /// Ask the runtime at this CRI socket, not the agent
    #[arg(long, short = 'r', value_name = "unix:///PATH")]
    runtime_endpoint: Option<Endpoint>,
}

/// Who answers.
pub(crate) enum Local {
    /// The agent.
    Agent(AgentClient),
    /// A runtime alone; the embedded one was started for this.
    Runtime(LoneRuntime),
}

/// A runtime without an agent.
pub(crate) struct LoneRuntime {
    pub(crate) client: RuntimeClient,
    _embedded: Option<Embedded>,
}

impl Local {
    /// What the names of pods end in here.
    pub(crate) fn node_name(&self) -> String {
        match self {
            Self::Agent(agent) => agent.about.node_name.clone(),
            Self::Runtime(_) => crate::run::node_name(),
        }
    }
}

/// Nobody answers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error(
        "no agent runs with {}, and nothing was ever run there; `rubelet run PATH` starts one, --data-dir or --runtime-endpoint look elsewhere",
        .0.display()
    )]
    Nobody(PathBuf),
    #[error("{0}")]
    Embedded(#[from] EmbeddedError),
    #[error("{}", .0.explanation())]
    Runtime(rubelet_cri::Error),
    #[error("{0}")]
    Agent(#[from] AgentError),
    #[error("{0}")]
    Place(#[from] PlaceError),
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    #[error("cannot find the data folder: {0}")]
    Folder(#[from] std::io::Error),
}

impl Unreachable {
    /// How a command ends for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Nobody(_) | Self::Runtime(_) | Self::Agent(_) => Failure::Runtime,
            Self::Embedded(_) | Self::Place(_) | Self::Folder(_) => Failure::System,
            Self::Endpoint(_) => Failure::Usage,
        }
    }
}

impl LocalArgs {
    /// Finds whoever answers.
    pub(crate) async fn reach(&self) -> Result<Local, Unreachable> {
        if let Some(endpoint) = &self.runtime_endpoint {
            return Ok(Local::Runtime(LoneRuntime { client: greet(endpoint).await?, _embedded: None }));
        }
        let folder = self.place.path()?;
        let lock = loop {
            if let Some(agent) = self.agent().await? {
                return Ok(Local::Agent(agent));
            }
            // What the embedded runtime makes first.
            if !folder.join("sandboxes").exists() {
                return Err(Unreachable::Nobody(folder));
            }
            // Somebody who has the folder is an agent on its way, or a command that is soon done.
            match self.place.try_take()? {
                Some(lock) => break lock,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        let embedded = Embedded::start(&self.place, None).await?;
        let client = greet(&embedded.endpoint).await?;
        // Until this process ends: the runtime inside it is not gone before.
        std::mem::forget(lock);
        Ok(Local::Runtime(LoneRuntime { client, _embedded: Some(embedded) }))
    }

    /// The agent, if one runs.
    pub(crate) async fn agent(&self) -> Result<Option<AgentClient>, Unreachable> {
        Ok(AgentClient::connect(&self.place.agent_socket()?).await?)
    }

    /// Removes the folder of a pod that was ended without an agent.
    pub(crate) fn forget(&self, uid: &str) {
        let Ok(folder) = self.place.path() else { return };
        if let Err(error) = Volumes::new(DataDirectory::new(folder)).teardown(uid) {
            anstream::eprintln!(
                "what is left of pod {uid} cannot be removed: {error}; the next agent tries again"
            );
        }
    }

    /// Whether the pod was made by the agent of this folder.
    pub(crate) fn made(&self, uid: &str) -> bool {
        self.place.path().is_ok_and(|folder| folder.join("pods").join(uid).exists())
    }
}

async fn greet(endpoint: &Endpoint) -> Result<RuntimeClient, Unreachable> {
    let client = RuntimeClient::new(endpoint.clone(), Options::default(), Metrics::default());
    client.version().await.map_err(Unreachable::Runtime)?;
    Ok(client)
}
