//! What the runtime is asked to make: sandbox and container configurations as the kubelet writes them, so that its
//! tools see what they expect. Pure: everything that has to be read or made is an argument.

mod container;
mod dns;
mod hosts;
mod names;
mod resources;
mod sandbox;
mod security;

pub(crate) use container::{ConfigError, ContainerParts, container_config};
pub use dns::NodeDns;
pub(crate) use dns::{HostDns, PodDns, depends_on_host, of_pod as dns_of_pod};
pub(crate) use hosts::hosts_file;
pub(crate) use names::{HostName, LogName, NameTooLong, log_directory};
pub use resources::Machine;
pub(crate) use resources::{
    NODE_CRITICAL, PodAmounts, QosClass, of_pod as pod_amounts, of_sandbox as sandbox_resources, qos_class,
    resized, shares,
};
pub(crate) use sandbox::{SandboxParts, sandbox_config};
pub use security::SecuritySettings;
pub(crate) use security::asks_for_selinux;
