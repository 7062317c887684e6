//! `--config`: the fields of a `KubeletConfiguration` that we honour. The others are named, so that nobody believes in
//! them.

mod node;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use rubelet_cri::{Endpoint, EndpointError};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use node::{GroupConfig, NodeConfig};

/// What a configuration file says; nothing where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileConfig {
    pub(crate) static_pod_path: Option<PathBuf>,
    pub(crate) static_pod_url: Option<String>,
    pub(crate) pod_logs: Option<PathBuf>,
    pub(crate) runtime_endpoint: Option<Endpoint>,
    pub(crate) resync: Option<Duration>,
    pub(crate) file_poll: Option<Duration>,
    pub(crate) url_poll: Option<Duration>,
    pub(crate) parallel_pulls: Option<usize>,
    pub(crate) pulls_per_second: Option<u32>,
    pub(crate) pull_burst: Option<u32>,
    pub(crate) longest_backoff: Option<Duration>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) resolv_conf: Option<PathBuf>,
    pub(crate) cluster_dns: Vec<IpAddr>,
    pub(crate) cluster_domain: Option<String>,
    pub(crate) node: NodeConfig,
    /// Fields that mean nothing to us.
    pub(crate) ignored: Vec<String>,
}

/// The file is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    NotYaml(String),
    #[error("it is a {0}, and a KubeletConfiguration is needed")]
    OtherKind(String),
    #[error("{field}: {why}")]
    Field { field: &'static str, why: String },
}

impl FileConfig {
    /// Reads a file.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::read(&text)
    }

    fn read(text: &str) -> Result<Self, ConfigError> {
        let fields: BTreeMap<String, Value> =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::NotYaml(error.to_string()))?;
        let mut fields = Fields(fields);
        fields.take::<String>("apiVersion")?;
        match fields.take::<String>("kind")? {
            Some(kind) if kind == "KubeletConfiguration" => {}
            kind => {
                return Err(ConfigError::OtherKind(
                    kind.unwrap_or_else(|| "document without kind".to_owned()),
                ));
            }
        }
        let address = fields.take::<IpAddr>("address")?;
        let port = fields.take::<u16>("readOnlyPort")?.filter(|port| *port != 0);
        let serial = fields.take::<bool>("serializeImagePulls")?;
        let at_once = fields.take::<usize>("maxParallelImagePulls")?;
        let mut ignored = Vec::new();
        let config = Self {
            node: NodeConfig::take(&mut fields, &mut ignored)?,
            static_pod_path: fields.take("staticPodPath")?,
            static_pod_url: fields.take("staticPodURL")?,
            pod_logs: fields.take("podLogsDir")?,
            runtime_endpoint: fields.endpoint("containerRuntimeEndpoint")?,
            resync: fields.duration("syncFrequency")?,
            file_poll: fields.duration("fileCheckFrequency")?,
            url_poll: fields.duration("httpCheckFrequency")?,
            parallel_pulls: match (serial, at_once) {
                (Some(true), _) => Some(1),
                (_, Some(at_once)) => Some(at_once),
                (Some(false), None) => Some(Self::UNLIMITED_PULLS),
                (None, None) => None,
            },
            pulls_per_second: fields.take("registryPullQPS")?,
            pull_burst: fields.take("registryBurst")?,
            longest_backoff: fields.nested_duration("crashLoopBackOff", "maxContainerRestartPeriod")?,
            listen: port
                .map(|port| SocketAddr::new(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port)),
            resolv_conf: fields.take("resolvConf")?,
            cluster_dns: fields.take("clusterDNS")?.unwrap_or_default(),
            cluster_domain: fields.take("clusterDomain")?,
            ignored: Vec::new(),
        };
        ignored.extend(fields.0.into_keys());
        Ok(Self { ignored, ..config })
    }

    /// As many as anybody would want at once.
    const UNLIMITED_PULLS: usize = 64;
}

struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn take<T: DeserializeOwned>(&mut self, field: &'static str) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.0.remove(field) else { return Ok(None) };
        serde_json::from_value(value).map(Some).map_err(|error| wrong(field, &error))
    }

    fn duration(&mut self, field: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.take::<String>(field)? else { return Ok(None) };
        read_duration(field, &text).map(Some)
    }

    fn nested_duration(
        &mut self,
        field: &'static str,
        inner: &'static str,
    ) -> Result<Option<Duration>, ConfigError> {
        let Some(mut nested) = self.take::<BTreeMap<String, String>>(field)? else { return Ok(None) };
        nested.remove(inner).map(|text| read_duration(inner, &text)).transpose()
    }

    fn endpoint(&mut self, field: &'static str) -> Result<Option<Endpoint>, ConfigError> {
        let Some(text) = self.take::<String>(field)?.filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: EndpointError| wrong(field, &error))
    }
}

fn read_duration(field: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| wrong(field, &error))?;
    Duration::try_from(duration).map_err(|error| wrong(field, &error))
}

fn wrong(field: &'static str, why: &dyn std::fmt::Display) -> ConfigError {
    ConfigError::Field { field, why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use rubelet_agent::resource::Quantity;

    use super::node::{KeptFree, Threshold};
    use super::*;

    #[test]
    fn what_we_honour_is_read_and_the_rest_is_named() {
        let config = FileConfig::read(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: /etc/pods\n\
             syncFrequency: 1m30s\nmaxParallelImagePulls: 4\nregistryPullQPS: 0\nreadOnlyPort: 10255\nmaxPods: 50\n\
             imageGCHighThresholdPercent: 85\nsystemReserved: {cpu: 500m, memory: 1Gi, pid: '100'}\n\
             kubeReserved: {cpu: 250m}\nevictionHard: {memory.available: 5%, imagefs.available: 15%}\n\
             allowedUnsafeSysctls: ['net.core.*']\nseccompDefault: true\n\
             cgroupDriver: systemd\ncgroupRoot: /mine\npodPidsLimit: 100\n\
             crashLoopBackOff:\n  maxContainerRestartPeriod: 60s\nclusterDNS: [10.96.0.10]\n\
             clusterDomain: cluster.local\nresolvConf: \"\"\n",
        )
        .unwrap();
        let wanted = FileConfig {
            static_pod_path: Some("/etc/pods".into()),
            resync: Some(Duration::from_secs(90)),
            parallel_pulls: Some(4),
            pulls_per_second: Some(0),
            listen: Some("127.0.0.1:10255".parse().unwrap()),
            longest_backoff: Some(Duration::from_secs(60)),
            resolv_conf: Some("".into()),
            cluster_dns: vec!["10.96.0.10".parse().unwrap()],
            cluster_domain: Some("cluster.local".to_owned()),
            node: NodeConfig {
                max_pods: Some(50),
                reserved: [
                    ("cpu".to_owned(), Quantity::from_millis(750)),
                    ("memory".to_owned(), Quantity::from_units(1 << 30)),
                ]
                .into(),
                kept_free: KeptFree { memory: Threshold::Percent(5), disk: Threshold::Percent(0) },
                unsafe_sysctls: vec!["net.core.*".parse().unwrap()],
                seccomp_default: true,
                groups: GroupConfig {
                    driver: Some(rubelet_agent::cgroup::Driver::Systemd),
                    root: Some("/mine".to_owned()),
                    pids_limit: Some(100),
                    ..GroupConfig::default()
                },
                ..NodeConfig::default()
            },
            ignored: ["systemReserved.pid", "evictionHard.imagefs.available", "imageGCHighThresholdPercent"]
                .map(str::to_owned)
                .into(),
            ..FileConfig::default()
        };
        assert_eq!(config, wanted);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table = [
            ("kind: Pod", "it is a Pod, and a KubeletConfiguration is needed"),
            ("kind: KubeletConfiguration\nmaxParallelImagePulls: many", "maxParallelImagePulls: "),
            ("kind: KubeletConfiguration\nclusterDNS: [here]", "clusterDNS: "),
            ("kind: KubeletConfiguration\nsyncFrequency: soon", "syncFrequency: "),
            ("kind: KubeletConfiguration\nallowedUnsafeSysctls: [vm.*]", "allowedUnsafeSysctls: "),
            ("kind: KubeletConfiguration\nevictionHard: {memory.available: 101%}", "evictionHard: "),
            ("kind: KubeletConfiguration\ncgroupDriver: mine", "cgroupDriver: \"mine\" is not"),
            ("kind: KubeletConfiguration\nkubeReserved: {cpu: much}", "kubeReserved: "),
            ("kind: KubeletConfiguration\ncontainerRuntimeEndpoint: tcp://x", "containerRuntimeEndpoint: "),
        ];
        for (text, wanted) in table {
            let error = FileConfig::read(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }
}
