//! Creates everything that `rubelet run` consists of, and connects it. Nothing else does.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pleg::cri::CriObserver;
use pleg::record::{RecordError, Recorder};
use pleg::{Handle, Pleg};
use prometheus_client::registry::Registry;
use rubelet_agent::admission::RuntimeFeatures;
use rubelet_agent::gc::{ImageCollector, LogLinks, LogRotation};
use rubelet_agent::manifest::check_node_name;
use rubelet_agent::pod::{Growth, NodeDns};
use rubelet_agent::runtime::{CallBook, CriRuntime};
use rubelet_agent::settings::{HostIps, LogReader, Settings, pleg_config};
use rubelet_agent::source::{Feed, Inbox};
use rubelet_agent::sync_loop::{Agent, AgentParts};
use rubelet_agent::volumes::DataDirectory;
use rubelet_cri::{Endpoint, Metrics, Options, RuntimeClient};
use tokio::sync::watch;

use super::crew::{Crew, Lost};
use super::embedded::{Embedded, EmbeddedError};
use super::remarks::Remarks;
use super::service::ServiceManager;
use super::sources::{AnySource, Kept, SourcesError, sources};
use super::{Plan, addresses, groups, node, once, oom_score, report, rest, user_ids};
use crate::http::{About, Server, ServerError, State, Vitals, Witnesses};
use crate::last_agent::{Groups, LastAgent, LastAgentError, USUAL_LOG_LINKS};
use crate::place::PlaceError;
use crate::recording;
use crate::signals::{standstill, told_to_end};

/// Where other tools look for pod logs.
const USUAL_POD_LOGS: &str = "/var/log/pods";

/// Why a run could not start, or ended with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Sources(#[from] SourcesError),
    #[error("nothing to run: the given paths and URLs contain no usable pod")]
    NoPods,
    #[error(
        "containers need root: run as root, or use --runtime-endpoint to name a runtime that you have access to"
    )]
    NotRoot,
    #[error("{name:?} is not a valid node name: {why}; choose another with --node-name")]
    NodeName { name: String, why: &'static str },
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    #[error("{}", .0.explanation())]
    Runtime(rubelet_cri::Error),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot start the thread that reads pod logs: {0}")]
    LogThread(std::io::Error),
    #[error("all pods succeeded, but not all of their output could be printed: {0}")]
    Unshown(std::io::Error),
    #[error(transparent)]
    LastAgent(#[from] LastAgentError),
    #[error(
        "the pods of {} run in {theirs}; starting them in {ours} would run them twice. Stop them first (`{stop}`), \
         use that runtime, or choose another --data-dir",
        folder.display()
    )]
    AnotherRuntime { folder: PathBuf, theirs: String, ours: String, stop: String },
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The agent was asked to end; pods keep running.
    Told,
    /// All pods have ended, all of them successfully.
    AllSucceeded,
    /// Some pods have failed, were removed early, did not end in time, or could not be run.
    SomeFailed,
}

/// Runs an agent until it is asked to end.
pub(crate) async fn run(plan: Plan) -> Result<Ended, RunError> {
    if plan.runtime_endpoint.is_none() && !rustix::process::geteuid().is_root() {
        return Err(RunError::NotRoot);
    }
    let node_name = plan.node_name.clone().unwrap_or_else(node::name);
    if let Err(why) = check_node_name(&node_name) {
        return Err(RunError::NodeName { name: node_name, why });
    }
    let manager = ServiceManager::of_environment().unwrap_or_else(|error| {
        plan.remarks.print(&error.to_string());
        ServiceManager::default()
    });
    let waiting = |word: &str| {
        plan.remarks.print(word);
        manager.status(word);
    };
    // The lock is kept until the process ends: disk operations that are in progress when the agent ends are over only
    // then.
    plan.place.take(waiting).await?.keep();
    oom_score::set(plan.oom_score, &plan.remarks);
    let folder = plan.place.path().map_err(|source| unusable(&plan, source))?;
    refuse_another_runtime(&plan, &folder)?;
    let sources = sources(&plan, &node_name, &folder)?;
    let mut runtime = Connected::to(&plan).await?;

    let mut registry = Registry::default();
    registry.register_collector(Box::new(Vitals));
    let pleg_metrics = pleg::Metrics::default();
    pleg_metrics.register(&mut registry);
    runtime.metrics.register(&mut registry);
    let agent_metrics = rubelet_agent::metrics::Metrics::default();
    agent_metrics.register(&mut registry);
    agent_metrics.of_node(&node_name);
    let observing = runtime.client();
    let mut pleg = Pleg::new(CriObserver::new(observing.clone()), pleg_config(), pleg_metrics);
    pleg.handle().register(&mut registry);
    if let Some((folder, size)) = &plan.record {
        pleg.record(Some(Recorder::to_folder(folder, *size, &runtime.name)?));
    }

    let about = About {
        runtime_endpoint: runtime.endpoint.to_string(),
        runtime: runtime.name.clone(),
        pod_logs: plan.pod_logs.clone(),
        node_name: node_name.clone(),
    };
    let groups = groups::open(&plan.node.groups, &runtime.client(), &plan.remarks).await;
    let told = LastAgent {
        runtime_endpoint: plan.runtime_endpoint.as_ref().map(ToString::to_string),
        pod_logs: plan.pod_logs.clone(),
        node_name: node_name.clone(),
        groups: groups.as_ref().map(|(_, settings)| Groups::of(settings)),
    };
    told.write(&folder)?;
    let mut crew = Crew::default();
    let mut settings = settings(&plan, folder.clone(), node_name, &runtime);
    settings.host_ips = if plan.node_ips.is_empty() {
        let (told, ips) = HostIps::watched(addresses::of_machine().into_iter().collect());
        crew.spawn("the address watch", addresses::follow(told));
        ips
    } else {
        HostIps::fixed(plan.node_ips.clone())
    };
    let log_reader = LogReader::default();
    // The logs of these pods are printed while they run, and the pods are removed at the end, so logs must stay until
    // they have been read.
    let kept_for = plan.once.then(|| log_reader.clone());
    settings.log_reader.clone_from(&kept_for);
    let data = settings.data.clone();
    let inbox = Inbox::default();
    let (feed, updates) = Feed::new(inbox.clone());
    let calls = CallBook::default();
    let acting = || Arc::new(CriRuntime::new(runtime.client()).noting(&calls));
    let numbers = agent_metrics.clone();
    let (agent, handle) = Agent::new(AgentParts {
        runtime: acting(),
        prober: acting(),
        pleg: pleg.handle(),
        sources: sources.iter().map(AnySource::id).collect(),
        settings,
        updates,
        metrics: agent_metrics,
        groups: groups.map(|(groups, _)| groups),
    });
    let witnesses = Witnesses {
        agent: handle.clone(),
        pleg: pleg.handle(),
        calls: calls.clone(),
        numbers: numbers.clone(),
    };
    let server = serve(&plan, State::new(witnesses, registry, about))?;

    let upkeep = Upkeep { runtime: acting(), pleg: pleg.handle(), data, numbers, log_reader: kept_for };
    upkeep.begin(&mut crew, &plan);
    let feed = feed.run();
    crew.spawn("the pod feed", feed);
    let urls: Vec<String> = sources.iter().filter_map(AnySource::url).collect();
    let kept = Kept::new(&plan, &folder, &sources);
    for source in sources {
        source.spawn(&mut crew, &inbox);
    }
    pleg.start();
    report::introduce(&plan, urls, &runtime.name, server.address());
    manager.begun();
    let mut lost = None;
    let until = async {
        tokio::select! {
            () = told_to_end() => {}
            one = crew.lost() => lost = Some(one),
            one = runtime.lost() => lost = Some(one),
        }
        manager.ending();
    };
    let running = async {
        if plan.once {
            once::run(agent, &handle, &plan, log_reader, until).await
        } else {
            Ok(report::run(agent, &handle, &plan.remarks, until).await)
        }
    };
    let forgetting = async {
        kept.forget_others(handle.ready()).await;
        std::future::pending::<Infallible>().await
    };
    let stood_still = watch::Sender::default();
    let ended = tokio::select! {
        ended = running => ended,
        never = forgetting => match never {},
        never = manager.keep_informed(&handle) => match never {},
        // A runtime may block on a client that does not read its events.
        never = standstill::whenever_asked(&mut pleg, &observing, &stood_still) => match never {},
        never = rest::whenever_quiet(handle.board().changes(), rubelet_runtime::memory::give_back) => match never {},
    };
    finish_recording(&mut pleg, &plan.remarks).await;
    if let Some(lost) = lost {
        return Err(lost.into());
    }
    let ended = ended?;
    match ended {
        Ended::Told => report::say_goodbye(&plan, &handle),
        // All pods may have ended before the kept manifests of other sources were removed.
        Ended::AllSucceeded | Ended::SomeFailed => kept.forget_others(handle.ready()).await,
    }
    Ok(ended)
}

/// The tasks that keep a node in order while its pods run.
struct Upkeep {
    runtime: Arc<CriRuntime>,
    pleg: Handle,
    data: DataDirectory,
    numbers: rubelet_agent::metrics::Metrics,
    /// The reader that must be able to read all logs before they are removed.
    log_reader: Option<LogReader>,
}

impl Upkeep {
    fn begin(self, crew: &mut Crew, plan: &Plan) {
        let Self { runtime, pleg, data, numbers, log_reader } = self;
        let (cache, clock, pod_logs) = (pleg.cache(), pleg.clock().clone(), &plan.pod_logs);
        if pod_logs == Path::new(USUAL_POD_LOGS) && !plan.once {
            // Links are made only for the usual log folder: whoever chooses another folder does not want them in the
            // usual place. With `--once`, the logs are printed anyway.
            let links = LogLinks::new(pleg, data.clone(), pod_logs.clone(), USUAL_LOG_LINKS.into());
            crew.spawn("the log links", links.run());
        }
        let rotation =
            LogRotation::new(runtime.clone(), cache.clone(), data, pod_logs.clone(), plan.upkeep.logs)
                .read_by(log_reader);
        crew.spawn("log rotation", rotation.run());
        let images = ImageCollector::new(runtime, cache, clock, plan.upkeep.images, numbers);
        crew.spawn("image garbage collection", images.run());
    }
}

async fn finish_recording(pleg: &mut Pleg<CriObserver>, remarks: &Remarks) {
    let Some(recorder) = pleg.record(None) else { return };
    if let Err(error) = recording::finish(recorder).await {
        remarks.print(&format!("the recording is incomplete: {error}"));
    }
}

/// A connected runtime.
struct Connected {
    endpoint: Endpoint,
    /// The name that the runtime reports.
    name: String,
    metrics: Metrics,
    features: RuntimeFeatures,
    embedded: Option<Embedded>,
}

impl Connected {
    async fn to(plan: &Plan) -> Result<Self, RunError> {
        let (endpoint, embedded) = match &plan.runtime_endpoint {
            Some(endpoint) => (endpoint.clone(), None),
            None => {
                let embedded = Embedded::start(&plan.place, plan.cni_conf_dir.clone()).await?;
                (embedded.endpoint.clone(), Some(embedded))
            }
        };
        let metrics = Metrics::default();
        let client = RuntimeClient::new(endpoint.clone(), Options::default(), metrics.clone());
        let version = client.version().await.map_err(RunError::Runtime)?;
        let status = client.status(false).await.map_err(RunError::Runtime)?;
        Ok(Self {
            endpoint,
            name: version.runtime_name,
            features: RuntimeFeatures::read(&status),
            metrics,
            embedded,
        })
    }

    /// Waits until the embedded runtime is lost. Any other runtime is not part of this process, and comes back.
    async fn lost(&mut self) -> Lost {
        match &mut self.embedded {
            Some(embedded) => Lost::of("the embedded runtime", embedded.ended().await),
            None => std::future::pending().await,
        }
    }

    /// Returns a client with a connection of its own.
    fn client(&self) -> RuntimeClient {
        RuntimeClient::new(self.endpoint.clone(), Options::default(), self.metrics.clone())
    }
}

fn settings(plan: &Plan, data: PathBuf, node_name: String, runtime: &Connected) -> Settings {
    let capacity = node::capacity(&data);
    let mut settings = Settings::new(node_name, data);
    settings.logs.clone_from(&plan.pod_logs);
    settings.runtime_name.clone_from(&runtime.name);
    settings.allocatable = node::allocatable(&capacity, &plan.node);
    settings.admission =
        node::admission(&settings.node_name, plan, settings.allocatable.clone(), runtime.features);
    settings.user_ids = user_ids::pool(plan.node.ids_per_pod, settings.admission.max_pods);
    if let Err(error) = &settings.user_ids {
        tracing::warn!(%error, "pods with hostUsers: false cannot start");
    }
    settings.reserved = plan.node.groups.are_held.then(|| plan.node.reserved.clone());
    settings.machine = node::machine(&capacity, &plan.node);
    settings.security.seccomp_default = plan.node.seccomp_default;
    settings.security.hidden_paths = node::hidden_paths();
    settings.security.selinux = node::has_selinux();
    settings.parallel_pulls = plan.parallel_pulls;
    settings.pull_rate = plan.pull_rate;
    // The embedded runtime may also run as a process of its own (`rubelet runtime`), behind an endpoint like any other.
    settings.has_built_in_images = runtime.name == rubelet_runtime::embedded::NAME;
    settings.resync = plan.resync.unwrap_or(settings.resync);
    settings.backoff = plan.longest_backoff.map_or(settings.backoff, Growth::up_to);
    settings.dns = dns(plan);
    settings
}

/// The DNS settings of pods.
fn dns(plan: &Plan) -> NodeDns {
    let usual = NodeDns::default();
    NodeDns {
        resolv_conf: plan.resolv_conf.clone().unwrap_or(usual.resolv_conf),
        cluster_servers: plan.cluster_dns.iter().map(IpAddr::to_string).collect(),
        cluster_domain: plan.cluster_domain.clone().unwrap_or_default(),
    }
}

/// Refuses a runtime other than that of the last agent while that agent's pods exist: nothing would watch them any
/// more.
fn refuse_another_runtime(plan: &Plan, folder: &Path) -> Result<(), RunError> {
    // A record that cannot be read proves nothing, and is about to be rewritten.
    let Some(last) = LastAgent::read(folder).ok().flatten() else { return Ok(()) };
    let ours = plan.runtime_endpoint.as_ref();
    let has_pods = std::fs::read_dir(folder.join("pods")).is_ok_and(|mut pods| pods.next().is_some());
    if last.had_runtime(folder, ours) || !has_pods {
        return Ok(());
    }
    let named = |endpoint: Option<String>| endpoint.unwrap_or_else(|| "the embedded runtime".to_owned());
    Err(RunError::AnotherRuntime {
        folder: folder.to_owned(),
        theirs: named(last.runtime_endpoint),
        ours: named(ours.map(ToString::to_string)),
        stop: format!("rubelet stop --all{}", plan.place.option()),
    })
}

fn unusable(plan: &Plan, source: std::io::Error) -> PlaceError {
    PlaceError::Unusable { path: plan.place.given().to_owned(), source }
}

fn serve(plan: &Plan, state: State) -> Result<Server, RunError> {
    let socket = plan.place.agent_socket().map_err(|source| unusable(plan, source))?;
    let listen: Option<SocketAddr> = plan.listen;
    Ok(Server::start(listen, &socket, state)?)
}
