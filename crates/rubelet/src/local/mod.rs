//! How commands find the agent of this machine or, if none is running, its runtime.

mod agent;
mod cleaner;

use std::path::{Path, PathBuf};

use rubelet_agent::board::{ContainerNames, kept_containers};
use rubelet_agent::gc::remove_dead_links;
use rubelet_agent::leavings::LeavingsError;
use rubelet_agent::runtime::{CallError, CallFailure};
use rubelet_agent::sync_loop::survey;
use rubelet_agent::volumes::DataDirectory;
use rubelet_cri::{Endpoint, EndpointError, ListFilter, Metrics, Options, PodListing, RuntimeClient};
use rubelet_model::PodRef;

use crate::endpoint::{ENVIRONMENT, endpoint_of_environment};
use crate::exit::Failure;
use crate::last_agent::{LastAgent, LastAgentError, USUAL_LOG_LINKS};
use crate::log::remark;
use crate::place::{Holder, Lock, Place, PlaceError, Turn};
use crate::run::{Embedded, EmbeddedError};

pub(crate) use agent::{AgentClient, AgentError, PodInfo};
pub(crate) use cleaner::Cleaner;

/// Where to look.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LocalArgs {
    #[command(flatten)]
    place: Place,
    /// Ask the runtime at this CRI socket instead of the agent [default without an agent: the runtime of the last agent, else
    /// `$CONTAINER_RUNTIME_ENDPOINT`]
    #[arg(long, short = 'r', value_name = "unix:///PATH")]
    runtime_endpoint: Option<Endpoint>,
}

/// What answers a command.
pub(crate) enum Local {
    /// The agent.
    Agent(AgentClient),
    /// A runtime alone; the embedded one was started for this command.
    Runtime(LoneRuntime),
}

/// A runtime without an agent.
pub(crate) struct LoneRuntime {
    pub(crate) client: RuntimeClient,
    /// The suffix of pod names, if an agent ever ran.
    node_name: Option<String>,
    /// Whether this process holds the folder until it ends, so that no agent can start in the meantime.
    has_folder: bool,
    /// Whether it is the embedded runtime of another command.
    is_of_other: bool,
    _embedded: Option<Embedded>,
}

impl LoneRuntime {
    /// Lists all of its pods.
    pub(crate) async fn pods(&self) -> Result<PodListing, Unreachable> {
        let failed = if self.is_of_other { Unreachable::RuntimeOfOther } else { Unreachable::Runtime };
        self.client.list_pods(&ListFilter::All).await.map_err(failed)
    }
}

impl Local {
    /// Returns the suffix of pod names.
    pub(crate) fn node_name(&self) -> String {
        match self {
            Self::Agent(agent) => agent.about.node_name.clone(),
            Self::Runtime(lone) => lone.node_name.clone().unwrap_or_else(crate::run::node_name),
        }
    }
}

/// Why neither an agent nor a runtime answers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    #[error(
        "no agent is running with {}, and none ever has; start one with `rubelet run PATH`, or look elsewhere with \
         --data-dir or --runtime-endpoint",
        .0.display()
    )]
    Nobody(PathBuf),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error("{}", .0.explanation())]
    Runtime(rubelet_cri::Error),
    /// The embedded runtime of another command, which may have ended.
    #[error("{}", .0.explanation())]
    RuntimeOfOther(rubelet_cri::Error),
    #[error("{}", not_ended(.0))]
    NotEnded(Vec<(String, EndError)>),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("cannot find the data folder: {0}")]
    Folder(#[from] std::io::Error),
    #[error(transparent)]
    LastAgent(#[from] LastAgentError),
    #[error("{ENVIRONMENT}: {0}")]
    Environment(EndpointError),
}

/// Why a pod was not stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndError {
    #[error("the runtime: {0}")]
    Call(#[from] CallError),
    #[error("some of its processes still run, unknown to the runtime: {0}")]
    Runs(LeavingsError),
}

/// What a command needs from the agent or the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To read, which is soon done.
    Look,
    /// To run something in a container.
    Exec,
    /// To be sure that no agent and no other command interferes.
    Folder,
}

impl Unreachable {
    /// Whether the agent or the runtime has ended in the meantime, so that another one may answer now.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Agent(error) => error.has_ended(),
            Self::RuntimeOfOther(error) => error.is_unavailable(),
            _ => false,
        }
    }

    /// The exit code for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Nobody(_) | Self::Runtime(_) | Self::RuntimeOfOther(_) | Self::Agent(_) => Failure::Runtime,
            Self::NotEnded(pods) if pods.iter().all(|(_, error)| is_silent(error)) => Failure::Runtime,
            // The runtime can be reached; it is stopping the pod that failed.
            Self::NotEnded(_) => Failure::System,
            Self::Embedded(_) | Self::Place(_) | Self::Folder(_) | Self::LastAgent(_) => Failure::System,
            Self::Endpoint(_) | Self::Environment(_) => Failure::Usage,
        }
    }
}

impl LocalArgs {
    /// Finds what is to answer: the given runtime, or the agent, or the runtime that the last agent used, or the one
    /// that the environment names.
    pub(crate) async fn reach(&self, need: Need) -> Result<Local, Unreachable> {
        let folder = self.place.path()?;
        if let Some(endpoint) = &self.runtime_endpoint {
            // If the runtime is given, the folder need not be readable.
            let last = LastAgent::read(&folder).ok().flatten();
            return lone(endpoint, last.as_ref()).await.map(Local::Runtime);
        }
        let mut turn = Turn::new(&self.place);
        let (lock, last) = loop {
            if let Some(agent) = self.agent().await? {
                return Ok(Local::Agent(agent));
            }
            let last = LastAgent::read(&folder)?;
            // This folder is the first thing that the embedded runtime creates.
            if last.is_none() && !folder.join("sandboxes").exists() {
                return match endpoint_of_environment().map_err(Unreachable::Environment)? {
                    Some(endpoint) => lone(&endpoint, None).await.map(Local::Runtime),
                    None => Err(Unreachable::Nobody(folder)),
                };
            }
            // An external runtime can always be asked, but an agent that is starting knows more.
            if need != Need::Folder
                && !self.place.has_agent()
                && let Some(last) = &last
                && let Some(endpoint) = last.endpoint(&folder)?
            {
                return lone(&endpoint, Some(last)).await.map(Local::Runtime);
            }
            // The folder is held by an agent that is starting or ending, or by a command, which ends sooner or later.
            if let Some(lock) = self.place.try_take(Holder::Command)? {
                break (lock, last);
            }
            if need == Need::Look
                && self.place.has_command()
                && let Ok(lone) = lone(&self.embedded_endpoint()?, last.as_ref()).await
            {
                return Ok(Local::Runtime(LoneRuntime { is_of_other: true, ..lone }));
            }
            turn.wait(|word| remark(word)).await?;
        };
        lock.keep();
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
        let lone = LoneRuntime {
            client,
            node_name,
            has_folder: true,
            is_of_other: false,
            _embedded: Some(embedded),
        };
        Ok(Local::Runtime(lone))
    }

    /// Returns the endpoint of the embedded runtime of whichever process holds the folder.
    fn embedded_endpoint(&self) -> Result<Endpoint, Unreachable> {
        Ok(Endpoint::from_path(&self.place.runtime_socket()?)?)
    }

    /// Connects to the agent, if one is running and no runtime was given.
    pub(crate) async fn agent(&self) -> Result<Option<AgentClient>, Unreachable> {
        if self.runtime_endpoint.is_some() {
            return Ok(None);
        }
        Ok(AgentClient::connect(&self.place.agent_socket()?).await?)
    }

    /// Reads the record of the folder's last agent.
    pub(crate) fn last_agent(&self) -> Result<Option<LastAgent>, Unreachable> {
        Ok(LastAgent::read(&self.place.path()?)?)
    }

    /// Whether the remains of pods in the folder may be removed: the folder is held by this process, or free, in which
    /// case it is taken. An agent that was bypassed because a runtime was given holds it, and cleans up after its pods
    /// itself.
    pub(crate) fn may_clean_up(&self, lone: &LoneRuntime) -> bool {
        let taken = || self.place.try_take(Holder::Command).ok().flatten().map(Lock::keep);
        lone.has_folder || taken().is_some()
    }

    /// Lists the pods of this folder that its runtime does not know: they wait for a volume, or were interrupted before
    /// they were created or after they were removed. A runtime other than theirs proves nothing.
    pub(crate) async fn only_in_folder(&self, lone: &LoneRuntime) -> Result<Vec<PodRef>, Unreachable> {
        let (true, Some(last)) = (lone.has_folder, self.last_agent()?) else { return Ok(Vec::new()) };
        let listed = lone.pods().await?;
        // A pod that could not be read may be one of them.
        if listed.unreadable > 0 {
            return Ok(Vec::new());
        }
        let mut pods = survey(&DataDirectory::new(self.place.path()?).pods(), &last.pod_logs, |_| None)?;
        pods.retain(|pod| listed.pods.iter().all(|known| known.pod.uid != pod.uid));
        Ok(pods)
    }

    /// Returns a cleaner for pods of this folder that are stopped without an agent; `None` if there never was an agent.
    pub(crate) fn cleaner(&self) -> Option<Cleaner> {
        let (Ok(folder), Ok(Some(last))) = (self.place.path(), self.last_agent()) else { return None };
        match Cleaner::of(last, &folder) {
            Ok(cleaner) => Some(cleaner),
            Err(error) => {
                remark(format_args!("cannot clean up after pods: {error}; the next agent will try again"));
                None
            }
        }
    }

    /// Removes links to logs that were removed with their pods.
    pub(crate) fn remove_dead_links(&self) {
        let Ok(Some(last)) = self.last_agent() else { return };
        if let Err(error) = remove_dead_links(Path::new(USUAL_LOG_LINKS), &last.pod_logs) {
            remark(format_args!("cannot remove dead log links from {USUAL_LOG_LINKS}: {error}"));
        }
    }

    /// Returns the names of a pod's containers, if an agent of this folder ever knew them.
    pub(crate) fn containers(&self, uid: &str) -> ContainerNames {
        let folder = self.place.path().ok();
        folder.map(|folder| kept_containers(&DataDirectory::new(folder), uid)).unwrap_or_default()
    }

    /// Whether the pod was created by an agent of this folder.
    pub(crate) fn made(&self, uid: &str) -> bool {
        self.place.path().is_ok_and(|folder| folder.join("pods").join(uid).exists())
    }
}

async fn lone(endpoint: &Endpoint, last: Option<&LastAgent>) -> Result<LoneRuntime, Unreachable> {
    let node_name = last.map(|last| last.node_name.clone());
    let client = greet(endpoint).await?;
    Ok(LoneRuntime { client, node_name, has_folder: false, is_of_other: false, _embedded: None })
}

/// Whether the error is that the runtime did not answer.
fn is_silent(error: &EndError) -> bool {
    match error {
        EndError::Call(error) => error.failure.is_absence() || error.failure == CallFailure::Timeout,
        EndError::Runs(_) => false,
    }
}

/// Says which pods could not be stopped, and why.
fn not_ended(pods: &[(String, EndError)]) -> String {
    let lines: Vec<String> = pods.iter().map(|(pod, error)| format!("cannot stop {pod}: {error}")).collect();
    lines.join("\n")
}

/// Runs `work` with whatever answers. If that ended before it could answer, the work is done once more, with whatever
/// answers then.
pub(crate) async fn again_if_ended<T, E>(
    mut work: impl AsyncFnMut() -> Result<T, E>,
    has_ended: impl Fn(&E) -> bool,
) -> Result<T, E> {
    match work().await {
        Err(error) if has_ended(&error) => work().await,
        done => done,
    }
}

async fn greet(endpoint: &Endpoint) -> Result<RuntimeClient, Unreachable> {
    let client = RuntimeClient::new(endpoint.clone(), Options::default(), Metrics::default());
    client.version().await.map_err(Unreachable::Runtime)?;
    Ok(client)
}

#[cfg(test)]
mod tests;
