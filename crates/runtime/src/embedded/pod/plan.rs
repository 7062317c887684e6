//! What a pod sandbox's config asks for, validated. Pure.

use std::collections::BTreeMap;

use rubelet_cri::v1::{self, NamespaceMode};

use super::DEFAULT_CGROUP;
use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};
use crate::embedded::record::Held;
use crate::embedded::{enums, namespaces};

/// What a sandbox's config asks for, validated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) held: Held,
    pub(super) shared_pids: bool,
    pub(super) hostname: String,
    pub(super) sysctls: BTreeMap<String, String>,
    parent: Option<String>,
}

impl Plan {
    pub(super) fn of(config: &v1::PodSandboxConfig, cgroups: &Cgroups) -> Result<Self> {
        let meta = config.metadata.as_ref().ok_or_else(|| Error::invalid("config.metadata", "is missing"))?;
        for (field, value) in [("name", &meta.name), ("namespace", &meta.namespace), ("uid", &meta.uid)] {
            if value.is_empty() {
                return Err(Error::invalid(format!("config.metadata.{field}"), "is empty"));
            }
        }
        if config.windows.is_some() {
            return Err(Error::unsupported("config.windows", "not supported on Linux"));
        }
        enums::check_sandbox(config)?;
        if !config.log_directory.is_empty() && !config.log_directory.starts_with('/') {
            return Err(Error::invalid("config.log_directory", "is not an absolute path"));
        }
        check_ports(&config.port_mappings)?;
        let linux = config.linux.clone().unwrap_or_default();
        let options = linux
            .security_context
            .as_ref()
            .and_then(|context| context.namespace_options.clone())
            .unwrap_or_default();
        check_namespaces(&options)?;
        let network = options.network() != NamespaceMode::Node;
        let held = Held {
            network,
            ipc: options.ipc() != NamespaceMode::Node,
            // A pod on the host's network has the host's name.
            uts: network,
        };
        let sysctls = linux.sysctls.into_iter().collect();
        namespaces::check_sysctls(&sysctls, held)?;
        if held.uts && config.hostname.len() > 64 {
            return Err(Error::invalid("config.hostname", "is longer than 64 bytes"));
        }
        let parent = match linux.cgroup_parent.as_str() {
            "" => None,
            slice if slice.ends_with(".slice") => {
                let problem = "systemd slices are not supported: the cgroup driver is cgroupfs";
                return Err(Error::unsupported("config.linux.cgroup_parent", problem));
            }
            path if path.split('/').any(|part| part == "..") => {
                return Err(Error::invalid("config.linux.cgroup_parent", "must not contain \"..\""));
            }
            path => Some(format!("/{}", path.trim_matches('/'))),
        };
        Ok(Self {
            held,
            // A request that leaves it out asks for POD; without control groups, a container that does so is rejected.
            shared_pids: options.pid() == NamespaceMode::Pod && *cgroups != Cgroups::None,
            hostname: config.hostname.clone(),
            sysctls,
            parent: if *cgroups == Cgroups::None { Some(String::new()) } else { parent },
        })
    }

    pub(super) fn cgroup(&self, id: &str) -> String {
        match &self.parent {
            Some(parent) => parent.clone(),
            None => format!("{DEFAULT_CGROUP}/{id}"),
        }
    }
}

/// Checks that a pod has its own network and ipc namespaces, or the node's. No other mode makes sense for a pod.
fn check_namespaces(options: &v1::NamespaceOption) -> Result<()> {
    const FIELD: &str = "config.linux.security_context.namespace_options";
    for (name, mode) in [("network", options.network()), ("ipc", options.ipc())] {
        if !matches!(mode, NamespaceMode::Pod | NamespaceMode::Node) {
            let problem = format!("{} is not allowed for a pod: use POD or NODE", mode.as_str_name());
            return Err(Error::invalid(format!("{FIELD}.{name}"), problem));
        }
    }
    if options.pid() == NamespaceMode::Target {
        return Err(Error::invalid(
            format!("{FIELD}.pid"),
            "TARGET is not allowed for a pod, only for a container",
        ));
    }
    match &options.userns_options {
        Some(user) if user.mode() != NamespaceMode::Node => Err(Error::unsupported(
            format!("{FIELD}.userns_options"),
            "user namespaces for pods are not supported",
        )),
        _ => Ok(()),
    }
}

fn check_ports(mappings: &[v1::PortMapping]) -> Result<()> {
    for (index, mapping) in mappings.iter().enumerate() {
        for (name, port) in [("container_port", mapping.container_port), ("host_port", mapping.host_port)] {
            if !(0..=65535).contains(&port) {
                let field = format!("config.port_mappings[{index}].{name}");
                return Err(Error::invalid(field, format!("{port} is not a port")));
            }
        }
        if !mapping.host_ip.is_empty() && mapping.host_ip.parse::<std::net::IpAddr>().is_err() {
            let field = format!("config.port_mappings[{index}].host_ip");
            return Err(Error::invalid(field, format!("{:?} is not an address", mapping.host_ip)));
        }
    }
    Ok(())
}

/// Rejects host ports where nothing maps them.
pub(super) fn refuse_ports(config: &v1::PodSandboxConfig, own_network: bool) -> Result<()> {
    let wants = config.port_mappings.iter().find(|mapping| mapping.host_port > 0);
    match wants {
        Some(mapping) if own_network => Err(Error::unsupported(
            "config.port_mappings",
            format!("host port {} needs a CNI configuration with the portmap plugin", mapping.host_port),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(
        options: v1::NamespaceOption,
        change: impl FnOnce(&mut v1::PodSandboxConfig),
    ) -> v1::PodSandboxConfig {
        let mut config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: "p".into(),
                uid: "u".into(),
                namespace: "n".into(),
                attempt: 0,
            }),
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(options),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        change(&mut config);
        config
    }

    fn plan(config: &v1::PodSandboxConfig) -> Result<Plan, String> {
        let mounts = crate::embedded::mountinfo::parse("1 2 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n");
        Plan::of(config, &Cgroups::from_mounts(&mounts)).map_err(|error| error.to_string())
    }

    #[test]
    fn namespaces_by_table() {
        let (pod, own, node) =
            (NamespaceMode::Pod as i32, NamespaceMode::Container as i32, NamespaceMode::Node as i32);
        // network, pid, ipc → held network, ipc, uts; shared pids
        let table = [
            ((pod, pod, pod), (true, true, true, true)),
            ((node, own, pod), (false, true, false, false)),
            ((pod, own, node), (true, false, true, false)),
            ((node, node, node), (false, false, false, false)),
        ];
        for ((network, pid, ipc), expected) in table {
            let plan = plan(&config(v1::NamespaceOption { network, pid, ipc, ..Default::default() }, |_| {}))
                .unwrap();
            let got = (plan.held.network, plan.held.ipc, plan.held.uts, plan.shared_pids);
            assert_eq!(got, expected, "{network} {pid} {ipc}");
        }
    }

    #[test]
    fn cgroup_parents() {
        let with = |parent: &str| {
            plan(&config(v1::NamespaceOption::default(), |config| {
                config.linux.as_mut().unwrap().cgroup_parent = parent.to_owned();
            }))
        };
        assert_eq!(with("").unwrap().cgroup("ID"), "/rubelet/ID");
        assert_eq!(with("/kubepods/pod1/").unwrap().cgroup("ID"), "/kubepods/pod1");
        assert!(with("kubepods-x.slice").unwrap_err().starts_with("config.linux.cgroup_parent: "));
        assert!(with("/a/../..").unwrap_err().starts_with("config.linux.cgroup_parent: "));
    }

    #[test]
    fn what_is_missing_or_impossible_is_named() {
        let none = v1::NamespaceOption::default();
        let nameless = config(none.clone(), |config| config.metadata.as_mut().unwrap().name.clear());
        assert_eq!(plan(&nameless).unwrap_err(), "config.metadata.name: is empty");
        let bare = config(none.clone(), |config| config.metadata = None);
        assert_eq!(plan(&bare).unwrap_err(), "config.metadata: is missing");
        let ports = config(none, |config| {
            config.port_mappings.push(v1::PortMapping { host_port: 80, ..Default::default() });
        });
        assert!(refuse_ports(&ports, true).is_err());
        assert!(refuse_ports(&ports, false).is_ok());
    }

    #[test]
    fn fields_that_make_no_sense_for_a_pod_are_named() {
        type Change = fn(&mut v1::PodSandboxConfig);
        fn options(config: &mut v1::PodSandboxConfig) -> &mut v1::NamespaceOption {
            let linux = config.linux.as_mut().unwrap();
            linux.security_context.as_mut().unwrap().namespace_options.as_mut().unwrap()
        }
        fn port(config: &mut v1::PodSandboxConfig, mapping: v1::PortMapping) {
            config.port_mappings.push(mapping);
        }
        const OPTIONS: &str = "config.linux.security_context.namespace_options";
        let table: [(Change, String); 10] = [
            (|config| config.windows = Some(v1::WindowsPodSandboxConfig::default()), "config.windows".into()),
            (|config| config.log_directory = "logs".into(), "config.log_directory".into()),
            (|config| config.hostname = "x".repeat(65), "config.hostname".into()),
            (
                |config| options(config).network = NamespaceMode::Container as i32,
                format!("{OPTIONS}.network"),
            ),
            (|config| options(config).ipc = NamespaceMode::Target as i32, format!("{OPTIONS}.ipc")),
            (|config| options(config).pid = NamespaceMode::Target as i32, format!("{OPTIONS}.pid")),
            (|config| options(config).pid = 17, format!("{OPTIONS}.pid")),
            (
                |config| port(config, v1::PortMapping { host_port: 65536, ..Default::default() }),
                "config.port_mappings[0].host_port".into(),
            ),
            (
                |config| port(config, v1::PortMapping { container_port: -1, ..Default::default() }),
                "config.port_mappings[0].container_port".into(),
            ),
            (
                |config| port(config, v1::PortMapping { host_ip: "here".into(), ..Default::default() }),
                "config.port_mappings[0].host_ip".into(),
            ),
        ];
        for (change, field) in table {
            let refusal = plan(&config(v1::NamespaceOption::default(), change)).unwrap_err();
            assert!(refusal.starts_with(&format!("{field}: ")), "{refusal} should name {field}");
        }
    }
}
