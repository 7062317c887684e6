//! The life of a pod sandbox, as operations.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;
use rubelet_cri::v1::{self, ContainerEventType, NamespaceMode};

use super::cgroup::Cgroups;
use super::error::{Error, Result};
use super::record::{Held, SandboxRecord};
use super::registry::Sandbox;
use super::runtime::{Runtime, blocking};
use super::state::SandboxState;
use super::store::{self, Durability};
use super::{clock, enums, id, namespaces};

/// Control groups that were made for a sandbox and go with it, deepest first. Written before the first one is made.
const MADE_GROUPS: &str = "groups.json";

/// Root of the control groups that nobody told us where to put.
const DEFAULT_CGROUP: &str = "/rubelet";

impl Runtime {
    /// `RunPodSandbox`.
    pub(crate) async fn run_sandbox(self: &Arc<Self>, request: v1::RunPodSandboxRequest) -> Result<String> {
        if !request.runtime_handler.is_empty() {
            return Err(Error::unsupported(
                "runtime_handler",
                format!("no handler {:?} here", request.runtime_handler),
            ));
        }
        let config = request.config.ok_or_else(|| Error::invalid("config", "is missing"))?;
        let plan = Plan::of(&config, &self.facts.cgroups)?;
        let id = id::random()?;
        let meta = config.metadata.clone().unwrap_or_default();
        let name = format!("{}_{}_{}_{}", meta.name, meta.namespace, meta.uid, meta.attempt);
        self.registry.reserve(&name, &id)?;
        match self.make_sandbox(&id, config, plan).await {
            Ok(sandbox) => {
                self.registry.add_sandbox(Arc::clone(&sandbox));
                self.watch_pause(&sandbox);
                for kind in
                    [ContainerEventType::ContainerCreatedEvent, ContainerEventType::ContainerStartedEvent]
                {
                    self.events.publish(kind, &id, &sandbox, &self.registry);
                }
                Ok(id)
            }
            Err(error) => {
                if let Err(cleanup) = self.discard_sandbox(&id).await {
                    tracing::error!(sandbox = id, error = %cleanup, "cannot clean up a sandbox that was not made");
                }
                self.registry.release(&name, &id);
                Err(error)
            }
        }
    }

    async fn make_sandbox(
        self: &Arc<Self>,
        id: &str,
        config: v1::PodSandboxConfig,
        plan: Plan,
    ) -> Result<Arc<Sandbox>> {
        let folder = self.layout.sandbox(id);
        let cgroup = plan.cgroup(id);
        let made_groups = missing_groups(&self.facts.cgroups, &cgroup);
        let (making, sysctls, hostname) = (folder.clone(), plan.sysctls.clone(), plan.hostname.clone());
        let (held, request) = (plan.held, config.clone());
        blocking(move || {
            store::make_dir(&making)?;
            store::write(&making.join(store::REQUEST), &request.encode_to_vec(), Durability::Process)?;
            store::write_json(&making.join(MADE_GROUPS), &made_groups, Durability::Process)?;
            write_files(&making, &request, &hostname)?;
            namespaces::hold(&making, held, &hostname, &sysctls)
        })
        .await?;
        let ips = match &self.cni {
            Some(cni) if plan.held.network => cni.add(&folder, id, &config).await?,
            _ => {
                refuse_ports(&config, plan.held.network)?;
                Vec::new()
            }
        };
        let pause = if plan.shared_pids {
            Some(self.start_pause(id, &folder, plan.held, &cgroup).await?)
        } else {
            None
        };
        let record = SandboxRecord {
            id: id.to_owned(),
            created_at: clock::now(),
            state: SandboxState::Ready,
            ips,
            cgroup,
            held: plan.held,
            pause,
        };
        let (path, written) = (folder.join(store::RECORD_SANDBOX), record.clone());
        // Last: with this the sandbox exists.
        blocking(move || store::write_json(&path, &written, Durability::Process)).await?;
        Ok(Sandbox::new(record, config))
    }

    /// `StopPodSandbox`: its containers end, its network and namespaces go, its description stays. Not there is fine.
    pub(crate) async fn stop_sandbox(self: &Arc<Self>, wanted: &str) -> Result<()> {
        match self.registry.sandbox(wanted) {
            Ok(sandbox) => {
                let _work = sandbox.work.lock().await;
                self.take_down(&sandbox).await
            }
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// With the sandbox's lock held.
    async fn take_down(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<()> {
        let was_ready = self.mark_not_ready(sandbox).await?;
        let containers = self.registry.containers_of(&sandbox.id);
        let mut stops = tokio::task::JoinSet::new();
        for container in containers {
            let runtime = Arc::clone(self);
            stops.spawn(async move { runtime.stop(&container, 0).await });
        }
        while let Some(stopped) = stops.join_next().await {
            stopped.map_err(|error| Error::Internal(error.to_string()))??;
        }
        self.let_go(&sandbox.id).await?;
        if was_ready {
            self.events.publish(
                ContainerEventType::ContainerStoppedEvent,
                &sandbox.id,
                sandbox,
                &self.registry,
            );
        }
        Ok(())
    }

    /// Records that nothing new may start in it. True if that is news.
    pub(crate) async fn mark_not_ready(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool> {
        let record = {
            let mut record = sandbox.record.write();
            if record.state == SandboxState::NotReady {
                return Ok(false);
            }
            record.state = SandboxState::NotReady;
            record.clone()
        };
        let path = self.layout.sandbox(&sandbox.id).join(store::RECORD_SANDBOX);
        blocking(move || store::write_json(&path, &record, Durability::Process)).await?;
        Ok(true)
    }

    /// Takes down what a sandbox holds outside its folder. Can be done again, and to a half-made one.
    pub(crate) async fn let_go(self: &Arc<Self>, id: &str) -> Result<()> {
        let folder = self.layout.sandbox(id);
        self.end_pause(&folder).await;
        if let Some(cni) = &self.cni {
            cni.delete(&folder, id).await?;
        } else if super::cni::is_attached(&folder) {
            tracing::warn!(
                sandbox = id,
                "its network was set up by CNI, and no CNI configuration is given now"
            );
        }
        blocking(move || namespaces::release(&folder)).await
    }

    /// `RemovePodSandbox`. Not there is fine; containers in it go with it.
    pub(crate) async fn remove_sandbox(self: &Arc<Self>, wanted: &str) -> Result<()> {
        let sandbox = match self.registry.sandbox(wanted) {
            Ok(sandbox) => sandbox,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let _work = sandbox.work.lock().await;
        if self.registry.sandbox(&sandbox.id).is_err() {
            return Ok(());
        }
        self.take_down(&sandbox).await?;
        for container in self.registry.containers_of(&sandbox.id) {
            self.remove(&container).await?;
        }
        self.discard_sandbox(&sandbox.id).await?;
        self.registry.drop_sandbox(&sandbox.id);
        self.registry.release(&sandbox.name(), &sandbox.id);
        self.events.publish(ContainerEventType::ContainerDeletedEvent, &sandbox.id, &sandbox, &self.registry);
        Ok(())
    }

    /// Removes a sandbox's folder, record first, after letting go of what it holds.
    pub(crate) async fn discard_sandbox(self: &Arc<Self>, id: &str) -> Result<()> {
        self.let_go(id).await?;
        let folder = self.layout.sandbox(id);
        let cgroups = self.facts.cgroups.clone();
        blocking(move || {
            let made: Vec<String> =
                store::read_json(&folder.join(MADE_GROUPS)).unwrap_or_default().unwrap_or_default();
            for group in &made {
                cgroups.remove_empty(group);
            }
            match fs::remove_file(folder.join(store::RECORD_SANDBOX)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(format!("remove the record in {}", folder.display()), error));
                }
                _ => {}
            }
            store::remove_dir(&folder)
        })
        .await
    }
}

/// What a sandbox's config asks for, checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    held: Held,
    shared_pids: bool,
    hostname: String,
    sysctls: HashMap<String, String>,
    parent: Option<String>,
}

impl Plan {
    pub(crate) fn of(config: &v1::PodSandboxConfig, cgroups: &Cgroups) -> Result<Self> {
        let meta = config.metadata.as_ref().ok_or_else(|| Error::invalid("config.metadata", "is missing"))?;
        for (field, value) in [("name", &meta.name), ("namespace", &meta.namespace), ("uid", &meta.uid)] {
            if value.is_empty() {
                return Err(Error::invalid(format!("config.metadata.{field}"), "is empty"));
            }
        }
        if config.windows.is_some() {
            return Err(Error::unsupported("config.windows", "this is a Linux machine"));
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
            // The host's network has the host's name.
            uts: network,
        };
        namespaces::check_sysctls(&linux.sysctls, held)?;
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
            shared_pids: options.pid() == NamespaceMode::Pod,
            hostname: config.hostname.clone(),
            sysctls: linux.sysctls,
            parent: if *cgroups == Cgroups::None { Some(String::new()) } else { parent },
        })
    }

    fn cgroup(&self, id: &str) -> String {
        match &self.parent {
            Some(parent) => parent.clone(),
            None => format!("{DEFAULT_CGROUP}/{id}"),
        }
    }
}

/// A pod has its own network and ipc namespace, or the node's. Nothing else makes sense for a pod.
fn check_namespaces(options: &v1::NamespaceOption) -> Result<()> {
    const FIELD: &str = "config.linux.security_context.namespace_options";
    for (name, mode) in [("network", options.network()), ("ipc", options.ipc())] {
        if !matches!(mode, NamespaceMode::Pod | NamespaceMode::Node) {
            let problem = format!("{} is not for a pod: use POD or NODE", mode.as_str_name());
            return Err(Error::invalid(format!("{FIELD}.{name}"), problem));
        }
    }
    if options.pid() == NamespaceMode::Target {
        return Err(Error::invalid(format!("{FIELD}.pid"), "TARGET is not for a pod: it is for a container"));
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

/// The groups on the way to this one that do not exist yet, deepest first: whoever makes them removes them.
fn missing_groups(cgroups: &Cgroups, group: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut path = Path::new(group);
    while path.parent().is_some() && path != Path::new(DEFAULT_CGROUP) {
        let text = path.to_string_lossy().into_owned();
        if cgroups.exists(&text) {
            break;
        }
        missing.push(text);
        path = path.parent().unwrap_or(Path::new("/"));
    }
    missing
}

fn refuse_ports(config: &v1::PodSandboxConfig, own_network: bool) -> Result<()> {
    let wants = config.port_mappings.iter().find(|mapping| mapping.host_port > 0);
    match wants {
        Some(mapping) if own_network => Err(Error::unsupported(
            "config.port_mappings",
            format!("host port {} needs a CNI configuration with the portmap plugin", mapping.host_port),
        )),
        _ => Ok(()),
    }
}

/// Name resolution for the pod's containers.
fn write_files(folder: &Path, config: &v1::PodSandboxConfig, hostname: &str) -> Result<()> {
    let host_file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let resolv_conf = match &config.dns_config {
        Some(dns) if !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty()) => {
            resolv_conf(dns)
        }
        _ => host_file("/etc/resolv.conf"),
    };
    let hostname =
        if hostname.is_empty() { host_file("/etc/hostname").trim().to_owned() } else { hostname.to_owned() };
    let files = [
        ("resolv.conf", resolv_conf),
        ("hostname", format!("{hostname}\n")),
        ("hosts", host_file("/etc/hosts")),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        // Read by whatever user runs in the pod.
        fs::write(&path, text).map_err(|error| Error::io(format!("write {}", path.display()), error))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&path, mode)
            .map_err(|error| Error::io(format!("write {}", path.display()), error))?;
    }
    Ok(())
}

fn resolv_conf(dns: &v1::DnsConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
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
        let mounts = super::super::mountinfo::parse("1 2 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n");
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

    #[test]
    fn dns() {
        let dns = v1::DnsConfig {
            servers: vec!["1.1.1.1".into(), "::1".into()],
            searches: vec!["a".into(), "b".into()],
            options: vec!["ndots:5".into()],
        };
        assert_eq!(resolv_conf(&dns), "search a b\nnameserver 1.1.1.1\nnameserver ::1\noptions ndots:5\n");
    }
}
