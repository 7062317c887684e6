//! Pods as commands see them, whoever told of them; and how people name one.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rubelet_cri::ListFilter;
use rubelet_model::{ContainerState, RuntimePod, SandboxState};

use crate::exit::Failure;
use crate::local::{Local, LoneRuntime, PodInfo, Unreachable};
use crate::summary::Summary;

/// Why there is no pod to do something with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotChosen {
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    #[error("{0}")]
    NotOne(#[from] NotOne),
}

impl NotChosen {
    /// How a command ends for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(error) => error.failure(),
            Self::NotOne(_) => Failure::Usage,
        }
    }
}

/// A pod in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) ready: String,
    pub(crate) status: String,
    pub(crate) restarts: i64,
    pub(crate) since: Option<Timestamp>,
    /// When a container last ended that was started again.
    pub(crate) restarted: Option<Timestamp>,
    pub(crate) ip: String,
    pub(crate) node: String,
}

/// Everything that is known of the pods of this machine.
pub(crate) enum Pods {
    /// By the agent.
    Told(Vec<PodInfo>),
    /// By the runtime alone.
    Seen(Vec<RuntimePod>),
}

impl Pods {
    pub(crate) async fn of(local: &Local) -> Result<Self, Unreachable> {
        match local {
            Local::Agent(agent) => Ok(Self::Told(agent.pods().await?)),
            Local::Runtime(LoneRuntime { client, .. }) => {
                let listed = client.list_pods(&ListFilter::All).await.map_err(Unreachable::Runtime)?;
                Ok(Self::Seen(listed.pods))
            }
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = match self {
            Self::Told(pods) => pods.iter().map(told).collect(),
            Self::Seen(pods) => pods.iter().map(seen).collect(),
        };
        rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rows
    }
}

fn told(info: &PodInfo) -> Row {
    let summary = Summary::of(&info.pod, &info.pod.status.clone().unwrap_or_default(), &info.stage);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let started = info.pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    Row {
        namespace: text(&info.pod.metadata.namespace),
        name: text(&info.pod.metadata.name),
        uid: text(&info.pod.metadata.uid),
        ready: format!("{}/{}", summary.ready, summary.containers),
        status: summary.status,
        restarts: summary.restarts,
        since: started.map(|time| time.0),
        restarted: last_restart(&info.pod),
        ip: text(&info.pod.status.as_ref().and_then(|status| status.pod_ip.clone())),
        node: text(&info.pod.spec.as_ref().and_then(|spec| spec.node_name.clone())),
    }
}

/// When a container last ended that was started again.
fn last_restart(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let all = init.chain(status.container_statuses.iter().flatten());
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
        ready: format!("{running}/{}", names.len()),
        status: if is_ready { "Ready".to_owned() } else { "NotReady".to_owned() },
        restarts: restarts.sum(),
        since: created.and_then(|at| Timestamp::from_nanosecond(i128::from(at.0)).ok()),
        restarted: None,
        ip: String::new(),
        node: String::new(),
    }
}

/// How people name a pod: `name` or `namespace/name`, with or without the name of the node at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodName {
    namespace: Option<String>,
    name: String,
}

/// Not one pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOne {
    #[error("there is no pod {name}; there {}", listed(.there))]
    None { name: String, there: Vec<String> },
    #[error("{name} could be {}; say which", .there.join(" or "))]
    Many { name: String, there: Vec<String> },
}

fn listed(there: &[String]) -> String {
    match there {
        [] => "are none at all".to_owned(),
        [one] => format!("is {one}"),
        many => format!("are {}", many.join(", ")),
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
    /// The same, in this namespace unless it names another.
    pub(crate) fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = self.namespace.or_else(|| namespace.map(str::to_owned));
        self
    }

    /// Whether it means the pod of that name, on that node.
    pub(crate) fn is(&self, namespace: &str, name: &str, node: &str) -> bool {
        let is_name = name == self.name || name == format!("{}-{node}", self.name);
        is_name && self.namespace.as_ref().is_none_or(|own| own == namespace)
    }

    /// The one pod that is meant: by its full name, or by the name in its manifest.
    pub(crate) fn find<'a>(&self, rows: &'a [Row], node: &str) -> Result<&'a Row, NotOne> {
        let of_namespace =
            |row: &&Row| self.namespace.as_ref().is_none_or(|namespace| *namespace == row.namespace);
        let in_manifest = format!("{}-{node}", self.name);
        let exact: Vec<&Row> = rows.iter().filter(of_namespace).filter(|row| row.name == self.name).collect();
        let found = if exact.is_empty() {
            rows.iter().filter(of_namespace).filter(|row| row.name == in_manifest).collect()
        } else {
            exact
        };
        let full = |row: &Row| format!("{}/{}", row.namespace, row.name);
        match found[..] {
            [one] => Ok(one),
            [] => Err(NotOne::None { name: self.name.clone(), there: rows.iter().map(full).collect() }),
            _ => Err(NotOne::Many { name: self.name.clone(), there: found.into_iter().map(full).collect() }),
        }
    }
}

/// The pod of a row.
pub(crate) fn pod_of<'a>(pods: &'a [PodInfo], row: &Row) -> Option<&'a PodInfo> {
    pods.iter().find(|info| info.pod.metadata.uid.as_deref() == Some(row.uid.as_str()))
}

/// The names of a pod's containers, those that run beside each other first.
pub(crate) fn container_names(pod: &Pod) -> Vec<String> {
    let spec = pod.spec.as_ref();
    let regular = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    regular.iter().chain(init).map(|container| container.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(namespace: &str, name: &str) -> Row {
        Row {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("{namespace}-{name}"),
            ready: String::new(),
            status: String::new(),
            restarts: 0,
            since: None,
            restarted: None,
            ip: String::new(),
            node: String::new(),
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
        assert_eq!(find("db").unwrap_err(), "db could be default/db-node or shop/db-node; say which");
        assert!(find("x").unwrap_err().starts_with("there is no pod x; there are default/web-node, "));
    }
}
