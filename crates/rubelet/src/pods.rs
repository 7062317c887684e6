//! Pods as commands see them, whether from the agent or the runtime; and how users name one.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{ContainerState, PodRef, RuntimePod, SandboxState};

use crate::clean::clean;
use crate::exit::Failure;
use crate::local::{AgentClient, AgentError, Local, PodInfo, Unreachable};
use crate::log::remark;
use crate::summary::{Summary, counted};

/// Why no pod was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotChosen {
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    #[error(transparent)]
    NotOne(#[from] NotOne),
}

impl NotChosen {
    /// Whether the agent or the runtime has ended in the meantime.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self, Self::Unreachable(error) if error.has_ended())
    }

    /// The exit code for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::NotOne(_) => Failure::Usage,
        }
    }
}

/// A pod as one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Whether another pod of the same name is to be preferred: while a pod is being replaced, the new one waits for
    /// the old one.
    pub(crate) yields: bool,
    pub(crate) ready: String,
    pub(crate) status: String,
    pub(crate) restarts: i64,
    pub(crate) since: Option<Timestamp>,
    /// When a restarted container last ended.
    pub(crate) restarted: Option<Timestamp>,
    pub(crate) ip: String,
    pub(crate) node: String,
    /// What is wrong, in one sentence.
    pub(crate) detail: Option<String>,
}

impl Row {
    /// Returns the row for a pod of which only a folder is left. Without logs, its name is unknown.
    pub(crate) fn of_folder(pod: PodRef) -> Self {
        let PodRef { uid, namespace, name } = pod;
        let name = if name.is_empty() { uid.to_string() } else { name.to_string() };
        Self { namespace: namespace.to_string(), name, uid: uid.to_string(), yields: true, ..Self::default() }
    }

    pub(crate) fn full_name(&self) -> String {
        let Self { namespace, name, .. } = self;
        if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
    }
}

/// Everything known about the pods of this machine.
pub(crate) enum Pods {
    /// As the agent reports them.
    Told {
        pods: Vec<PodInfo>,
        /// Whether these are all pods.
        are_all: bool,
    },
    /// As the runtime alone lists them.
    Seen(Vec<RuntimePod>),
}

impl Pods {
    pub(crate) async fn of(local: &Local) -> Result<Self, Unreachable> {
        match local {
            Local::Agent(agent) => Ok(Self::told_by(agent).await?),
            Local::Runtime(lone) => Ok(Self::Seen(lone.pods().await?.pods)),
        }
    }

    /// Asks this agent. Prints a remark if the agent does not know all of its pods yet.
    pub(crate) async fn told_by(agent: &AgentClient) -> Result<Self, AgentError> {
        // This is asked before the pods: what was unknown at this point may be missing from them.
        let unknown = agent.not_known_yet().await?;
        if let Some(unknown) = &unknown {
            remark(clean(&format!("the agent does not know all of its pods yet: {unknown}")));
        }
        Ok(Self::Told { pods: agent.pods().await?, are_all: unknown.is_none() })
    }

    /// Whether these are all pods.
    pub(crate) fn are_all(&self) -> bool {
        match self {
            Self::Told { are_all, .. } => *are_all,
            Self::Seen(_) => true,
        }
    }

    /// Returns the agent's report of the pod in this row, if the rows come from an agent.
    pub(crate) fn info(&self, row: &Row) -> Option<&PodInfo> {
        let Self::Told { pods, .. } = self else { return None };
        pods.iter().find(|info| info.pod.metadata.uid.as_deref() == Some(row.uid.as_str()))
    }

    /// Returns the pod in this row, if the rows come from the runtime. Listing it again by its UID would not find pods
    /// that were created by hand, since they lack that label.
    pub(crate) fn seen(&self, row: &Row) -> Option<&RuntimePod> {
        let Self::Seen(pods) = self else { return None };
        let has = |pod: &&RuntimePod| {
            let PodRef { uid, namespace, name } = &pod.pod;
            (uid.as_str(), &**namespace, &**name) == (&row.uid, &row.namespace, &row.name)
        };
        pods.iter().find(has)
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = match self {
            Self::Told { pods, .. } => pods.iter().map(told).collect(),
            Self::Seen(pods) => pods.iter().map(seen).collect(),
        };
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows
    }
}

fn told(info: &PodInfo) -> Row {
    let summary = Summary::of_info(info);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let started = info.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    Row {
        namespace: text(&info.pod.metadata.namespace),
        name: text(&info.pod.metadata.name),
        uid: text(&info.pod.metadata.uid),
        yields: info.stage == "pending",
        ready: format!("{}/{}", summary.ready, summary.containers),
        status: summary.status,
        restarts: summary.restarts,
        since: started.map(|time| time.0),
        restarted: last_restart(&info.pod),
        ip: text(&info.pod.status.as_ref().and_then(|status| status.pod_ip.clone())),
        node: text(&info.pod.spec.as_ref().and_then(|spec| spec.node_name.clone())),
        detail: summary.detail,
    }
}

/// Returns when a restarted container last ended, among those whose restarts are counted.
fn last_restart(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let all = counted(pod, status).into_iter();
    let ended = all.filter_map(|status| status.last_state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    ended.map(|time| time.0).max()
}

fn seen(pod: &RuntimePod) -> Row {
    let running = pod.containers.iter().filter(|one| one.state == ContainerState::Running).count();
    let mut names: Vec<&str> = pod.containers.iter().map(|container| &*container.name).collect();
    names.sort_unstable();
    names.dedup();
    let newest = pod.sandboxes.first();
    let is_ready = newest.is_some_and(|sandbox| sandbox.state == SandboxState::Ready);
    let created = newest.map(|sandbox| sandbox.created_at).filter(|at| at.is_set());
    let restarts = names.iter().map(|name| {
        let of_name = pod.containers.iter().filter(|container| *container.name == **name);
        of_name.map(|container| i64::from(container.attempt)).max().unwrap_or(0)
    });
    Row {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.pod.uid.to_string(),
        yields: !is_ready,
        ready: format!("{running}/{}", names.len()),
        status: if is_ready { "Ready".to_owned() } else { "NotReady".to_owned() },
        restarts: restarts.sum(),
        since: created.and_then(|at| Timestamp::from_nanosecond(i128::from(at.0)).ok()),
        restarted: None,
        ip: String::new(),
        node: String::new(),
        detail: None,
    }
}

/// A user's name for a pod: `name` or `namespace/name`, with or without the node name as a suffix; or its UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    namespace: Option<String>,
    name: String,
}

/// Why a name does not mean exactly one pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOne {
    #[error("no pod {name}; {}", known(.there))]
    None { name: String, there: Vec<String> },
    #[error("{name} is ambiguous: {}", .there.join(" or "))]
    Many { name: String, there: Vec<String> },
}

/// If the named pod does not exist, up to this many existing ones are listed; if there are more, only their number is
/// given.
const NAMED: usize = 8;

fn known(there: &[String]) -> String {
    match there {
        [] => "there are no pods".to_owned(),
        [one] => format!("there is {one}"),
        few if few.len() <= NAMED => format!("there are {}", few.join(", ")),
        many => format!("there are {} pods: `rubelet ps` lists them", many.len()),
    }
}

impl std::str::FromStr for PodName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_prefix("pod/").unwrap_or(text);
        Ok(match text.split_once('/') {
            Some((namespace, name)) => Self { namespace: Some(namespace.to_owned()), name: name.to_owned() },
            None => Self { namespace: None, name: text.to_owned() },
        })
    }
}

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl PodName {
    /// Sets the namespace, unless the name includes one.
    pub(crate) fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = self.namespace.or_else(|| namespace.map(str::to_owned));
        self
    }

    /// Returns the one pod that is meant. If several have the same name, it is the one that runs.
    pub(crate) fn find<'a>(&self, rows: &'a [Row], node: &str) -> Result<&'a Row, NotOne> {
        let found = self.find_all(rows, node)?;
        let running: Vec<&Row> = found.iter().filter(|row| !row.yields).copied().collect();
        match (&found[..], &running[..]) {
            ([one], _) | (_, [one]) => Ok(one),
            _ => Err(self.could_be(&found)),
        }
    }

    /// Returns the pods with that name, which may be two while one is being replaced. The name is the full name, the
    /// UID, or the name in the manifest.
    pub(crate) fn find_all<'a>(&self, rows: &'a [Row], node: &str) -> Result<Vec<&'a Row>, NotOne> {
        let of_namespace =
            |row: &&Row| self.namespace.as_ref().is_none_or(|namespace| *namespace == row.namespace);
        let in_manifest = format!("{}-{node}", self.name);
        let is_exact = |row: &&Row| row.name == self.name || row.uid == self.name;
        let exact: Vec<&Row> = rows.iter().filter(of_namespace).filter(is_exact).collect();
        let found: Vec<&Row> = if exact.is_empty() {
            rows.iter().filter(of_namespace).filter(|row| row.name == in_manifest).collect()
        } else {
            exact
        };
        let Some(first) = found.first() else {
            let there = rows.iter().map(Row::full_name).collect();
            return Err(NotOne::None { name: self.name.clone(), there });
        };
        if found.iter().any(|row| row.full_name() != first.full_name()) {
            return Err(self.could_be(&found));
        }
        Ok(found)
    }

    fn could_be(&self, found: &[&Row]) -> NotOne {
        let names: BTreeSet<String> = found.iter().map(|row| row.full_name()).collect();
        let there = if names.len() == found.len() {
            names.into_iter().collect()
        } else {
            found.iter().map(|row| format!("{} with UID {}", row.full_name(), row.uid)).collect()
        };
        NotOne::Many { name: self.name.clone(), there }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(namespace: &str, name: &str) -> Row {
        Row {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("{namespace}-{name}"),
            ..Row::default()
        }
    }

    #[test]
    fn a_pod_is_found_by_its_name_or_that_of_its_manifest() {
        let rows = [
            row("default", "web-node"),
            row("default", "db-node"),
            row("shop", "db-node"),
            row("shop", "web"),
        ];
        let find = |text: &str| {
            let name: PodName = text.parse().unwrap();
            name.find(&rows, "node").map(|row| row.uid.clone()).map_err(|error| error.to_string())
        };
        assert_eq!(find("web-node").unwrap(), "default-web-node");
        assert_eq!(find("web").unwrap(), "shop-web", "an exact name comes first");
        assert_eq!(find("default/web").unwrap(), "default-web-node");
        assert_eq!(find("pod/shop/db").unwrap(), "shop-db-node");
        assert_eq!(find("db").unwrap_err(), "db is ambiguous: default/db-node or shop/db-node");
        assert!(find("x").unwrap_err().starts_with("no pod x; there are default/web-node, "));
        assert_eq!(find("shop-db-node").unwrap(), "shop-db-node", "by its UID");
    }

    #[test]
    fn of_many_pods_none_is_named() {
        let said = |pods: usize| {
            let rows: Vec<Row> = (0..pods).map(|number| row("default", &format!("web-{number}"))).collect();
            let name: PodName = "x".parse().unwrap();
            name.find(&rows, "node").unwrap_err().to_string()
        };
        assert_eq!(said(0), "no pod x; there are no pods");
        assert_eq!(said(1), "no pod x; there is default/web-0");
        assert_eq!(said(2), "no pod x; there are default/web-0, default/web-1");
        assert!(said(NAMED).ends_with(", default/web-7"));
        assert_eq!(said(NAMED + 1), "no pod x; there are 9 pods: `rubelet ps` lists them");
    }

    #[test]
    fn while_a_pod_is_replaced_the_one_that_runs_is_meant() {
        let one = |uid: &str, yields| Row { uid: uid.to_owned(), yields, ..row("default", "web-node") };
        let rows = [one("new", true), one("old", false), row("shop", "web-node")];
        let name: PodName = "default/web".parse().unwrap();
        let find = |rows: &[Row]| name.find(rows, "node").map(|row| row.uid.clone());
        assert_eq!(find(&rows).unwrap(), "old");
        let all = name.find_all(&rows, "node").unwrap();
        assert_eq!(all.iter().map(|row| row.uid.as_str()).collect::<Vec<_>>(), ["new", "old"]);
        for (first, second) in [(true, true), (false, false)] {
            let error = find(&[one("1", first), one("2", second)]).unwrap_err();
            let wanted = "web is ambiguous: default/web-node with UID 1 or default/web-node with UID 2";
            assert_eq!(error.to_string(), wanted);
        }
        let anywhere: PodName = "web".parse().unwrap();
        assert!(anywhere.find_all(&rows, "node").is_err(), "of one name only");
    }
}
