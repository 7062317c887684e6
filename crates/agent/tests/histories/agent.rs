//! An agent as the program wires it, which can be killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pleg::cri::CriObserver;
use pleg::{Metrics, Pleg};
use rubelet_agent::pod::Growth;
use rubelet_agent::runtime::CriRuntime;
use rubelet_agent::settings::{Settings, pleg_config};
use rubelet_agent::source::{Feed, FileSource, Inbox, Source};
use rubelet_agent::sync_loop::{Agent, AgentHandle, AgentParts};
use rubelet_cri::{Endpoint, Options, RuntimeClient};
use tokio::task::JoinSet;

/// An agent. Dropping it kills it: nothing of it goes on, and nothing is said to anybody.
pub(crate) struct Running {
    pub(crate) handle: AgentHandle,
    _pleg: Pleg<CriObserver>,
    _tasks: JoinSet<()>,
}

impl Running {
    /// Starts one on the manifests below this folder. It hears of those in `more` only after a while.
    pub(crate) fn start(endpoint: &Endpoint, folder: &Path, silence: Duration) -> Self {
        let client = || {
            let mut options = Options::default();
            // Who waits for a call that hangs should not wait long here.
            options.call_timeout = Duration::from_millis(1500);
            options.inspect_timeout = Duration::from_millis(1000);
            RuntimeClient::new(endpoint.clone(), options, rubelet_cri::Metrics::default())
        };
        let mut pleg = Pleg::new(CriObserver::new(client()), pleg_config(), Metrics::default());
        let [source, late] = ["manifests", "more"].map(|name| FileSource::new(folder.join(name), "node"));
        let inbox = Inbox::default();
        let (feed, updates) = Feed::new(inbox.clone());
        let (agent, handle) = Agent::new(AgentParts {
            runtime: Arc::new(CriRuntime::new(client())),
            prober: Arc::new(CriRuntime::new(client())),
            pleg: pleg.handle(),
            settings: settings(folder),
            updates,
            metrics: rubelet_agent::metrics::Metrics::default(),
            sources: vec![source.id(), late.id()],
            groups: None,
        });
        let mut tasks = JoinSet::new();
        let sets = inbox.sender(source.id());
        tasks.spawn(source.run(sets));
        let sets = inbox.sender(late.id());
        tasks.spawn(async move {
            tokio::time::sleep(silence).await;
            late.run(sets).await;
        });
        tasks.spawn(feed.run());
        tasks.spawn(agent.run(std::future::pending()));
        pleg.start();
        Self { handle, _pleg: pleg, _tasks: tasks }
    }
}

/// As usual, but in a hurry.
fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::new("node", folder.join("data"));
    settings.logs = folder.join("logs");
    settings.retry = Duration::from_millis(300);
    settings.resync = Duration::from_secs(2);
    settings.backoff = Growth { initial: Duration::from_millis(100), max: Duration::from_millis(400) };
    settings
}
