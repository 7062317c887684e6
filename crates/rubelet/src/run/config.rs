//! `--config`: the supported fields of a `KubeletConfiguration`. The unsupported ones are reported, so that nobody
//! relies on them.

mod fields;
mod node;
mod upkeep;
mod url;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_cri::Endpoint;

use super::Listen;
use fields::{Fields, wrong};
pub(crate) use node::{GroupConfig, NodeConfig};
pub(crate) use upkeep::Upkeep;
pub(crate) use url::ConfiguredUrl;

/// The contents of a configuration file. A field that the file does not set is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileConfig {
    pub(crate) static_pod_path: Option<PathBuf>,
    pub(crate) static_pod_url: Option<ConfiguredUrl>,
    pub(crate) pod_logs: Option<PathBuf>,
    pub(crate) runtime_endpoint: Option<Endpoint>,
    pub(crate) resync: Option<Duration>,
    pub(crate) file_poll: Option<Duration>,
    pub(crate) url_poll: Option<Duration>,
    pub(crate) parallel_pulls: Option<usize>,
    pub(crate) pulls_per_second: Option<u32>,
    pub(crate) pull_burst: Option<u32>,
    pub(crate) longest_backoff: Option<Duration>,
    pub(crate) oom_score: Option<i32>,
    pub(crate) listen: Option<Listen>,
    pub(crate) resolv_conf: Option<PathBuf>,
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cluster_domain: Option<String>,
    pub(crate) node: NodeConfig,
    pub(crate) upkeep: Upkeep,
    /// Fields that have no effect here.
    pub(crate) ignored: Vec<String>,
}

/// An upper bound for files that never end, such as devices; far larger than any real configuration.
const LARGEST: u64 = 10 << 20;

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// Why a file cannot be used as configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("it is larger than {} MiB, too large for a configuration", LARGEST >> 20)]
    TooLarge,
    #[error("{0}")]
    NotYaml(String),
    #[error("it is a {0}, not a KubeletConfiguration")]
    OtherKind(String),
    #[error("apiVersion: is {0:?}, must be {API_VERSION:?}")]
    OtherVersion(String),
    #[error("{field}: {why}")]
    Field { field: &'static str, why: String },
}

impl FileConfig {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        match read {
            Err(source) => Err(ConfigError::Unreadable(source)),
            Ok(_) if text.len() as u64 > LARGEST => Err(ConfigError::TooLarge),
            Ok(_) => Self::read(&text),
        }
    }

    fn read(text: &str) -> Result<Self, ConfigError> {
        let mut fields = Fields::read(text)?;
        let version = fields.take::<String>("apiVersion")?;
        match fields.take::<String>("kind")? {
            Some(kind) if kind == "KubeletConfiguration" => {}
            kind => {
                return Err(ConfigError::OtherKind(
                    kind.unwrap_or_else(|| "document without kind".to_owned()),
                ));
            }
        }
        if let Some(other) = version.filter(|version| version != API_VERSION) {
            return Err(ConfigError::OtherVersion(other));
        }
        let mut ignored = Vec::new();
        let config = Self {
            node: NodeConfig::take(&mut fields, &mut ignored)?,
            upkeep: Upkeep::take(&mut fields)?,
            static_pod_path: fields.amount("staticPodPath")?,
            static_pod_url: ConfiguredUrl::take(&mut fields)?,
            pod_logs: fields.amount("podLogsDir")?,
            runtime_endpoint: fields.endpoint("containerRuntimeEndpoint")?,
            resync: fields.duration("syncFrequency")?,
            file_poll: fields.duration("fileCheckFrequency")?,
            url_poll: fields.duration("httpCheckFrequency")?,
            parallel_pulls: parallel_pulls(&mut fields)?,
            pulls_per_second: fields.take("registryPullQPS")?,
            pull_burst: fields.amount("registryBurst")?,
            longest_backoff: longest_backoff(&mut fields)?,
            oom_score: oom_score(&mut fields)?,
            listen: listen(&mut fields, &mut ignored)?,
            resolv_conf: fields.take("resolvConf")?,
            cluster_dns: fields.take("clusterDNS")?.unwrap_or_default(),
            cluster_domain: fields.take("clusterDomain")?,
            ignored: Vec::new(),
        };
        ignored.extend(fields.left());
        Ok(Self { ignored, ..config })
    }
}

/// As many parallel pulls as anybody would want.
const UNLIMITED_PULLS: usize = 64;

fn parallel_pulls(fields: &mut Fields) -> Result<Option<usize>, ConfigError> {
    const FIELD: &str = "maxParallelImagePulls";
    let serial = fields.take::<bool>("serializeImagePulls")?;
    match (serial, fields.take::<usize>(FIELD)?) {
        (_, Some(0)) => Err(wrong(FIELD, &"must be at least 1")),
        (Some(true), Some(2..)) => Err(wrong(FIELD, &"must be 1 unless serializeImagePulls is false")),
        (_, Some(at_once)) => Ok(Some(at_once)),
        (Some(true), None) => Ok(Some(1)),
        (Some(false), None) => Ok(Some(UNLIMITED_PULLS)),
        (None, None) => Ok(None),
    }
}

fn longest_backoff(fields: &mut Fields) -> Result<Option<Duration>, ConfigError> {
    const FIELD: &str = "maxContainerRestartPeriod";
    let longest = fields.nested_duration("crashLoopBackOff", FIELD)?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(300);
    if longest.is_some_and(|longest| !allowed.contains(&longest)) {
        return Err(wrong(FIELD, &"must be from 1s to 300s"));
    }
    Ok(longest)
}

fn oom_score(fields: &mut Fields) -> Result<Option<i32>, ConfigError> {
    const FIELD: &str = "oomScoreAdj";
    let score = fields.take::<i32>(FIELD)?;
    if score.is_some_and(|score| !(-1000..=1000).contains(&score)) {
        return Err(wrong(FIELD, &"must be from -1000 to 1000"));
    }
    Ok(score)
}

/// Port 0 means none; an address without a port has no effect.
fn listen(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Option<Listen>, ConfigError> {
    const ADDRESS: &str = "address";
    let address = fields.take::<IpAddr>(ADDRESS)?;
    let port = fields.take::<u16>("readOnlyPort")?;
    if address.is_some() && port.is_none_or(|port| port == 0) {
        ignored.push(ADDRESS.to_owned());
    }
    let at = |port| SocketAddr::new(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port);
    Ok(port.map(|port| Listen(Some(at(port)).filter(|address| address.port() != 0))))
}

#[cfg(test)]
mod tests;
