//! The configuration of a sandbox.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use rubelet_cri::{labels, v1};

use super::names::log_directory;
use super::{Machine, resources, security};
use crate::admission::dotted_sysctl;
use crate::pod::spec;
use crate::user_ids::IdRange;

/// What a sandbox is configured from.
#[derive(Clone, Debug)]
pub(crate) struct SandboxParts<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) attempt: u32,
    /// The ids of its users, if they are not those of the host.
    pub(crate) users: Option<IdRange>,
    /// Where the logs of all pods are.
    pub(crate) logs: &'a Path,
    pub(crate) hostname: String,
    pub(crate) dns_config: Option<v1::DnsConfig>,
    pub(crate) machine: &'a Machine,
    /// The control group of the pod; `None` lets the runtime choose.
    pub(crate) cgroup: Option<String>,
}

/// Returns what the runtime makes a sandbox from.
pub(crate) fn sandbox_config(parts: SandboxParts<'_>) -> v1::PodSandboxConfig {
    let SandboxParts { pod, attempt, users, logs, hostname, dns_config, machine, cgroup } = parts;
    let (resources, overhead) = resources::of_sandbox(pod, machine);
    let sysctls = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref())
        .and_then(|context| context.sysctls.as_deref())
        .unwrap_or_default();
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: spec::name(pod).to_owned(),
            namespace: spec::namespace(pod).to_owned(),
            uid: spec::uid(pod).to_string(),
            attempt,
        }),
        hostname,
        log_directory: log_directory(logs, pod).to_string_lossy().into_owned(),
        dns_config,
        port_mappings: port_mappings(pod),
        labels: pod_labels(pod),
        annotations: pod.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        linux: Some(v1::LinuxPodSandboxConfig {
            security_context: Some(security::of_sandbox(pod, users)),
            sysctls: sysctls
                .iter()
                .map(|sysctl| (dotted_sysctl(&sysctl.name), sysctl.value.clone()))
                .collect(),
            cgroup_parent: cgroup.unwrap_or_default(),
            resources: Some(resources),
            overhead,
        }),
        windows: None,
    }
}

fn pod_labels(pod: &Pod) -> std::collections::HashMap<String, String> {
    let own = pod.metadata.labels.clone().unwrap_or_default().into_iter();
    own.chain(identity_labels(pod)).collect()
}

/// The labels that identify what belongs to a pod.
pub(super) fn identity_labels(pod: &Pod) -> [(String, String); 3] {
    [
        (labels::POD_NAME.to_owned(), spec::name(pod).to_owned()),
        (labels::POD_NAMESPACE.to_owned(), spec::namespace(pod).to_owned()),
        (labels::POD_UID.to_owned(), spec::uid(pod).to_string()),
    ]
}

fn port_mappings(pod: &Pod) -> Vec<v1::PortMapping> {
    if spec::uses_host_network(pod) {
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let ports = spec::containers(pod).iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .map(|port| v1::PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => v1::Protocol::Udp,
                Some("SCTP") => v1::Protocol::Sctp,
                _ => v1::Protocol::Tcp,
            }
            .into(),
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .filter(|port| {
            seen.insert((port.protocol, port.host_ip.clone(), port.container_port, port.host_port))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;
    use crate::pod::testkit;

    #[test]
    fn a_sandbox_is_named_labelled_and_logged_as_the_kubelet_does() {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        pod.metadata.annotations = Some([("note".to_owned(), "n".to_owned())].into());
        let config = sandbox_config(SandboxParts {
            pod: &pod,
            attempt: 3,
            users: None,
            logs: Path::new("/var/log/pods"),
            hostname: String::new(),
            dns_config: None,
            machine: &Machine::default(),
            cgroup: Some("/kubepods/besteffort/poduid".to_owned()),
        });
        assert_eq!(config.linux.unwrap().cgroup_parent, "/kubepods/besteffort/poduid");
        let metadata = config.metadata.unwrap();
        assert_eq!((metadata.name.as_str(), metadata.namespace.as_str()), ("web", "default"));
        assert_eq!((metadata.uid.as_str(), metadata.attempt), ("uid", 3));
        assert_eq!(config.log_directory, "/var/log/pods/default_web_uid");
        let mut labels: Vec<(String, String)> = config.labels.into_iter().collect();
        labels.sort();
        let labels: Vec<String> = labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            labels,
            [
                "app=web",
                "io.kubernetes.pod.name=web",
                "io.kubernetes.pod.namespace=default",
                "io.kubernetes.pod.uid=uid"
            ]
        );
        assert_eq!(config.annotations["note"], "n");
    }

    #[test]
    fn ports_are_mapped_once_and_not_on_the_hosts_network() {
        let mut pod = testkit::pod("Always", &[], &["a", "b"]);
        let port = ContainerPort { container_port: 80, host_port: Some(8080), ..ContainerPort::default() };
        for container in &mut pod.spec.as_mut().unwrap().containers {
            container.ports = Some(vec![port.clone()]);
        }
        assert!(port_mappings(&pod).is_empty());
        pod.spec.as_mut().unwrap().host_network = None;
        let mapped = port_mappings(&pod);
        assert_eq!(mapped.len(), 1);
        assert_eq!((mapped[0].container_port, mapped[0].host_port), (80, 8080));
    }
}
