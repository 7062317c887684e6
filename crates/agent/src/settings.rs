//! How an agent behaves on its node.

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

/// How an agent wants its PLEG: most of what starts, the agent itself has started, and it asks when that is done.
#[must_use]
pub fn pleg_config() -> pleg::Config {
    let mut config = pleg::Config::default();
    config.start_patience = Duration::from_secs(30);
    config
}

/// How an agent behaves on its node. The defaults are the kubelet's where it has one.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the node is called.
    pub node_name: String,
    /// Where the agent keeps what belongs to pods.
    pub data: DataDirectory,
    /// Where the logs of pods are.
    pub logs: PathBuf,
    /// What the runtime calls itself: it stands before the id of every container.
    pub runtime_name: String,
    /// What pods are told about name servers.
    pub dns: NodeDns,
    /// The host's own hosts file, for pods on its network. One that is not there has nothing in it.
    pub host_hosts: PathBuf,
    /// The addresses of this node.
    pub host_ips: HostIps,
    /// What the pods of this node can use, by resource name.
    pub allocatable: BTreeMap<String, Quantity>,
    /// What this node takes.
    pub admission: admission::Node,
    /// What of the machine is not for pods, by name: all pods together are held to the rest. Nothing if they are not to be.
    pub reserved: Option<BTreeMap<String, Quantity>>,
    /// What the limits of containers depend on.
    pub machine: Machine,
    /// What the node adds to what pods ask for of security.
    pub security: SecuritySettings,
    /// Where pods with users of their own get their ids from.
    pub user_ids: Result<IdPool, IdPoolError>,
    /// How long a crashing container, or an image that cannot be had, waits.
    pub backoff: Growth,
    /// How often a pod is looked at although nothing happened to it.
    pub resync: Duration,
    /// How long to wait after something failed that no event will repair.
    pub retry: Duration,
    /// How many dead instances of a container are kept, for their logs and exit codes.
    pub dead_instances: usize,
    /// Who is to read all logs before they are removed with their instances. Nobody, usually: most logs nobody reads.
    pub log_reader: Option<LogReader>,
    /// How many commands of probes run at the same time.
    pub exec_probes: ProbeLimits,
    /// How many images are fetched at the same time.
    pub parallel_pulls: usize,
    /// How often registries are asked.
    pub pull_rate: PullRate,
    /// Whether the runtime brings images along, which no registry has.
    pub has_built_in_images: bool,
}

impl Settings {
    /// The defaults, for a node of this name that keeps everything below `data`.
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

    /// What this node tells a pod now.
    pub(crate) fn node_facts(&self) -> NodeFacts {
        NodeFacts { host_ips: self.host_ips.now().to_vec(), allocatable: self.allocatable.clone() }
    }
}
