//! `rubelet run`: an agent, its pod sources, a runtime, and the servers that show their state.

mod addresses;
mod config;
mod crew;
mod embedded;
mod groups;
mod node;
mod once;
mod oom_score;
mod remarks;
mod report;
mod rest;
mod service;
mod sources;
mod table;
mod user_ids;
mod wire;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rubelet_agent::settings::PullRate;
use rubelet_cri::Endpoint;

use crate::place::Place;

pub(crate) use config::{ConfiguredUrl, FileConfig, GroupConfig, NodeConfig, Upkeep};
pub(crate) use embedded::{Embedded, EmbeddedError};
pub(crate) use node::name as node_name;
pub(crate) use remarks::Remarks;
pub(crate) use wire::{Ended, RunError, run};

/// Everything that a run needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) urls: Vec<String>,
    /// The URL from the configuration file, which has headers of its own.
    pub(crate) configured_url: Option<ConfiguredUrl>,
    pub(crate) url_header_file: Option<PathBuf>,
    /// The runtime to use; the embedded one if `None`.
    pub(crate) runtime_endpoint: Option<Endpoint>,
    pub(crate) place: Place,
    /// The folder to record the runtime into, and its maximum size.
    pub(crate) record: Option<(PathBuf, u64)>,
    pub(crate) pod_logs: PathBuf,
    pub(crate) node_name: Option<String>,
    /// The addresses of the node; those of the machine if empty.
    pub(crate) node_ips: Vec<IpAddr>,
    pub(crate) node: NodeConfig,
    pub(crate) upkeep: Upkeep,
    /// Labels besides those that every node has.
    pub(crate) node_labels: Vec<(String, String)>,
    /// The address of the HTTP server; no server if `None`.
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) cni_conf_dir: Option<PathBuf>,
    pub(crate) parallel_pulls: usize,
    pub(crate) pull_rate: PullRate,
    pub(crate) resync: Option<Duration>,
    pub(crate) longest_backoff: Option<Duration>,
    pub(crate) oom_score: Option<i32>,
    pub(crate) file_poll: Option<Duration>,
    pub(crate) url_poll: Option<Duration>,
    /// The resolver configuration for pods: the host's own if `None`, and none at all if the path is empty.
    pub(crate) resolv_conf: Option<PathBuf>,
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cluster_domain: Option<String>,
    /// Whether to end when all pods have ended.
    pub(crate) once: bool,
    /// How long all pods may take with `once`.
    pub(crate) timeout: Option<Duration>,
    /// Where everything besides the output is printed. Without a table, the output is one line per change.
    pub(crate) remarks: Remarks,
}

/// An address to listen at, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" {
            return Ok(Self(None));
        }
        let address =
            text.parse().map_err(|_| "give an address and a port, as in 127.0.0.1:10255, or off")?;
        Ok(Self(Some(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_an_address_with_a_port_or_off() {
        for (text, wanted) in
            [("off", None), ("127.0.0.1:10255", Some("127.0.0.1:10255")), ("[::1]:0", Some("[::1]:0"))]
        {
            let wanted = wanted.map(|address| address.parse().unwrap());
            assert_eq!(text.parse(), Ok(Listen(wanted)), "{text}");
        }
        for text in ["", "localhost:10255", ":10255", "10255", "127.0.0.1", "Off"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains("as in 127.0.0.1:10255, or off"), "{text}");
        }
    }
}
