//! How commands find the agent of this machine, or, if none runs, its runtime.

mod agent;

use std::fs::File;
use std::path::{Path, PathBuf};

use rubelet_agent::board::{ContainerNames, kept_containers};
use rubelet_agent::cgroup::PodGroups;
use rubelet_agent::gc::remove_dead_links;
use rubelet_agent::leavings::Leavings;
use rubelet_agent::runtime::{CallError, CallFailure};
use rubelet_agent::sync_loop::survey;
use rubelet_agent::volumes::{DataDirectory, Volumes};
use rubelet_cri::{Endpoint, EndpointError, ListFilter, Metrics, Options, RuntimeClient};
use rubelet_model::PodRef;
use tokio::time::Instant;

use crate::endpoint::{ENVIRONMENT, endpoint_of_environment};
use crate::exit::Failure;
use crate::last_agent::{LastAgent, LastAgentError, USUAL_LOG_LINKS};
use crate::log::remark;
use crate::place::{LOOK, PATIENCE, Place, PlaceError};
use crate::run::{Embedded, EmbeddedError};

pub(crate) use agent::{AgentClient, AgentError, PodInfo};

/// Where to look.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LocalArgs {
    #[command(flatten)]
    place: Place,
    /// Ask the runtime at this CRI socket, not the agent; without either, the runtime that the last agent used is asked,
    /// or `$CONTAINER_RUNTIME_ENDPOINT`
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
    /// What the names of pods ended in, if an agent ever ran.
    node_name: Option<String>,
    /// Whether the folder is ours until this process ends, so that no agent uses it meanwhile.
    has_folder: bool,
    _embedded: Option<Embedded>,
}

impl Local {
    /// What the names of pods end in here.
    pub(crate) fn node_name(&self) -> String {
        match self {
            Self::Agent(agent) => agent.about.node_name.clone(),
            Self::Runtime(lone) => lone.node_name.clone().unwrap_or_else(crate::run::node_name),
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
    #[error("{}", not_ended(.0))]
    NotEnded(Vec<(String, CallError)>),
    #[error("{0}")]
    Agent(#[from] AgentError),
    #[error("{0}")]
    Place(#[from] PlaceError),
    #[error("{0}")]
    Endpoint(#[from] EndpointError),
    #[error("cannot find the data folder: {0}")]
    Folder(#[from] std::io::Error),
    #[error("{0}")]
    LastAgent(#[from] LastAgentError),
    #[error("{ENVIRONMENT}: {0}")]
    Environment(EndpointError),
}

impl Unreachable {
    /// How a command ends for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Nobody(_) | Self::Runtime(_) | Self::Agent(_) => Failure::Runtime,
            Self::NotEnded(pods) if pods.iter().all(|(_, error)| is_silent(error)) => Failure::Runtime,
            // It can be talked to: the end of a pod is what it could not do.
            Self::NotEnded(_) => Failure::System,
            Self::Embedded(_) | Self::Place(_) | Self::Folder(_) | Self::LastAgent(_) => Failure::System,
            Self::Endpoint(_) | Self::Environment(_) => Failure::Usage,
        }
    }
}

impl LocalArgs {
    /// Finds whoever answers: the runtime that is named, or the agent, or the runtime that the last agent used, or the
    /// one that the environment names.
    pub(crate) async fn reach(&self) -> Result<Local, Unreachable> {
        let folder = self.place.path()?;
        if let Some(endpoint) = &self.runtime_endpoint {
            // Whoever names the runtime need not be able to read the folder.
            let last = LastAgent::read(&folder).ok().flatten();
            return lone(endpoint, last.as_ref()).await.map(Local::Runtime);
        }
        let last = LastAgent::read(&folder)?;
        let deadline = Instant::now() + PATIENCE;
        let lock = loop {
            if let Some(agent) = self.agent().await? {
                return Ok(Local::Agent(agent));
            }
            // What the embedded runtime makes first.
            if last.is_none() && !folder.join("sandboxes").exists() {
                return match endpoint_of_environment().map_err(Unreachable::Environment)? {
                    Some(endpoint) => lone(&endpoint, None).await.map(Local::Runtime),
                    None => Err(Unreachable::Nobody(folder)),
                };
            }
            // Somebody who has the folder is an agent on its way, or a command that is soon done.
            match self.place.try_take()? {
                Some(lock) => break lock,
                None if Instant::now() >= deadline => return Err(self.place.busy().into()),
                None => tokio::time::sleep(LOOK).await,
            }
        };
        keep(lock);
        if let Some(last) = &last
            && let Some(endpoint) = last.endpoint(&folder)?
        {
            return Ok(Local::Runtime(LoneRuntime {
                has_folder: true,
                ..lone(&endpoint, Some(last)).await?
            }));
        }
        let embedded = Embedded::start(&self.place, None).await?;
        let client = greet(&embedded.endpoint).await?;
        let node_name = last.map(|last| last.node_name);
        Ok(Local::Runtime(LoneRuntime { client, node_name, has_folder: true, _embedded: Some(embedded) }))
    }

    /// The agent, if one runs and is to be asked.
    pub(crate) async fn agent(&self) -> Result<Option<AgentClient>, Unreachable> {
        if self.runtime_endpoint.is_some() {
            return Ok(None);
        }
        Ok(AgentClient::connect(&self.place.agent_socket()?).await?)
    }

    /// What the last agent of the folder was told.
    pub(crate) fn last_agent(&self) -> Result<Option<LastAgent>, Unreachable> {
        Ok(LastAgent::read(&self.place.path()?)?)
    }

    /// Whether what pods have left in the folder may be removed: it is ours, or becomes so because nobody has it. An agent
    /// that was passed over because the runtime was named has it, and cleans up after its pods.
    pub(crate) fn may_clean_up(&self, lone: &LoneRuntime) -> bool {
        let taken = || self.place.try_take().ok().flatten().map(keep);
        lone.has_folder || taken().is_some()
    }

    /// The pods of this folder of which its runtime knows nothing: they wait for a volume, or were cut off before or after they
    /// were there. Of another runtime than theirs that says nothing.
    pub(crate) async fn only_in_folder(&self, lone: &LoneRuntime) -> Result<Vec<PodRef>, Unreachable> {
        let (true, Some(last)) = (lone.has_folder, self.last_agent()?) else { return Ok(Vec::new()) };
        let listed = lone.client.list_pods(&ListFilter::All).await.map_err(Unreachable::Runtime)?;
        // What could not be read may be one of them.
        if listed.unreadable > 0 {
            return Ok(Vec::new());
        }
        let mut pods = survey(&DataDirectory::new(self.place.path()?).pods(), &last.pod_logs, |_| None)?;
        pods.retain(|pod| listed.pods.iter().all(|known| known.pod.uid != pod.uid));
        Ok(pods)
    }

    /// Removes what a pod of ours leaves behind that was ended without an agent.
    pub(crate) fn forget(&self, uid: &str) {
        let (Ok(folder), Ok(Some(last))) = (self.place.path(), self.last_agent()) else { return };
        if !self.made(uid) {
            return;
        }
        let opened = last.groups.map(|groups| PodGroups::open(&groups.settings())).transpose();
        let removed = opened.map_err(|error| error.to_string()).and_then(|groups| {
            let volumes = Volumes::new(DataDirectory::new(folder));
            let leavings = Leavings { groups: groups.as_ref(), logs: &last.pod_logs, volumes: &volumes };
            leavings.remove(&uid.into()).map_err(|error| error.to_string())
        });
        if let Err(error) = removed {
            remark(format_args!(
                "what is left of pod {uid} cannot be removed: {error}; the next agent tries again"
            ));
        }
    }

    /// Removes links to logs that went with their pods.
    pub(crate) fn remove_dead_links(&self) {
        let Ok(Some(last)) = self.last_agent() else { return };
        if let Err(error) = remove_dead_links(Path::new(USUAL_LOG_LINKS), &last.pod_logs) {
            remark(format_args!("dead links to logs stay in {USUAL_LOG_LINKS}: {error}"));
        }
    }

    /// What the containers of a pod are called, if an agent of this folder ever knew.
    pub(crate) fn containers(&self, uid: &str) -> ContainerNames {
        let folder = self.place.path().ok();
        folder.map(|folder| kept_containers(&DataDirectory::new(folder), uid)).unwrap_or_default()
    }

    /// Whether the pod was made by the agent of this folder.
    pub(crate) fn made(&self, uid: &str) -> bool {
        self.place.path().is_ok_and(|folder| folder.join("pods").join(uid).exists())
    }
}

async fn lone(endpoint: &Endpoint, last: Option<&LastAgent>) -> Result<LoneRuntime, Unreachable> {
    let node_name = last.map(|last| last.node_name.clone());
    Ok(LoneRuntime { client: greet(endpoint).await?, node_name, has_folder: false, _embedded: None })
}

/// Whether the runtime has not answered.
fn is_silent(error: &CallError) -> bool {
    error.failure.is_absence() || error.failure == CallFailure::Timeout
}

/// Which pods could not be ended, and why.
fn not_ended(pods: &[(String, CallError)]) -> String {
    let lines: Vec<String> =
        pods.iter().map(|(pod, error)| format!("{pod} could not be ended: the runtime: {error}")).collect();
    lines.join("\n")
}

/// Until this process ends: no agent comes between, and an embedded runtime is not gone before.
fn keep(lock: File) {
    std::mem::forget(lock);
}

async fn greet(endpoint: &Endpoint) -> Result<RuntimeClient, Unreachable> {
    let client = RuntimeClient::new(endpoint.clone(), Options::default(), Metrics::default());
    client.version().await.map_err(Unreachable::Runtime)?;
    Ok(client)
}
