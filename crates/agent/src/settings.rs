//! The settings of a node agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::admission;
use crate::downward::NodeFacts;
pub use crate::host_ips::HostIps;
use crate::pod::{Growth, Machine, NodeDns, SecuritySettings};
pub use crate::probe::ProbeLimits;
use crate::resource::Quantity;
use crate::user_ids::{IdPool, IdPoolError};
use crate::volumes::DataDirectory;

pub use crate::image::PullRate;
pub use crate::log_reader::{FileId, LogReader};

/// The PLEG configuration for an agent: the agent itself starts most of what starts, and asks for a look when it has
/// done so.
#[must_use]
pub fn pleg_config() -> pleg::Config {
    let mut config = pleg::Config::default();
    config.start_patience = Duration::from_secs(30);
    config
}

/// The settings of a node agent. The defaults are the kubelet's wherever it has one.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the node.
    pub node_name: String,
    /// The directory for the data of pods.
    pub data: DataDirectory,
    /// The directory for the logs of pods.
    pub logs: PathBuf,
    /// The runtime's own name; every container ID is prefixed with it.
    pub runtime_name: String,
    /// The DNS settings for pods.
    pub dns: NodeDns,
    /// The host's own hosts file, for pods on the host network. A missing file counts as empty.
    pub host_hosts: PathBuf,
    /// The addresses of this node.
    pub host_ips: HostIps,
    /// The resources that the pods of this node can use, by resource name.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What admission needs to know about this node.
    pub admission: admission::Node,
    /// The resources of the machine that are reserved for anything but pods, by name: all pods together are limited to
    /// the rest. `None` if there is no such limit.
    pub reserved: Option<BTreeMap<String, Quantity>>,
    /// The properties of the machine that the limits of containers depend on.
    pub machine: Machine,
    /// What the node adds to the security settings of pods.
    pub security: SecuritySettings,
    /// The pool of IDs for pods with user namespaces.
    pub user_ids: Result<IdPool, IdPoolError>,
    /// How long to back off before a crashed container is restarted or an unavailable image is pulled again.
    pub backoff: Growth,
    /// How often a pod is synced even though nothing happened to it.
    pub resync: Duration,
    /// How long to wait after a failure that no event will resolve.
    pub retry: Duration,
    /// How many dead instances of a container are kept, for their logs and exit codes.
    pub dead_instances: usize,
    /// The reader that must see all logs before they are removed together with their instances. Usually `None`: most
    /// logs are never read.
    pub log_reader: Option<LogReader>,
    /// How many exec probe commands may run at the same time.
    pub exec_probes: ProbeLimits,
    /// How many images are pulled at the same time.
    pub parallel_pulls: usize,
    /// The rate limit for requests to registries.
    pub pull_rate: PullRate,
    /// Whether the runtime has built-in images, which no registry has.
    pub has_built_in_images: bool,
}

impl Settings {
    /// Creates the default settings for a node of this name that keeps everything below `data`.
    #[must_use]
    pub fn new(node_name: impl Into<String>, data: impl Into<PathBuf>) -> Self {
        let (node_name, data) = (node_name.into(), data.into());
        Self {
            admission: admission::Node::named(&node_name),
            node_name,
            logs: PathBuf::from("/var/log/pods"),
            runtime_name: "cri".to_owned(),
            data: DataDirectory::new(&data),
            dns: NodeDns::default(),
            host_hosts: PathBuf::from("/etc/hosts"),
            host_ips: HostIps::default(),
            allocatable: BTreeMap::new(),
            reserved: None,
            machine: Machine::default(),
            security: SecuritySettings {
                seccomp_folder: data.join("seccomp"),
                ..SecuritySettings::default()
            },
            user_ids: Ok(IdPool::usual()),
            backoff: Growth::default(),
            resync: Duration::from_secs(60),
            retry: Duration::from_secs(10),
            dead_instances: 1,
            log_reader: None,
            exec_probes: ProbeLimits::default(),
            parallel_pulls: 1,
            pull_rate: PullRate::default(),
            has_built_in_images: false,
        }
    }

    /// Returns the facts about this node that a pod can see at this moment.
    pub(crate) fn node_facts(&self) -> NodeFacts {
        NodeFacts { host_ips: self.host_ips.now().to_vec(), allocatable: self.allocatable.clone() }
    }
}
