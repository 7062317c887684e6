//! Converts a CRI container config to an OCI runtime spec. Pure: facts in, document out.
//!
//! A request that cannot be satisfied is an error that names the field.

mod capabilities;
pub(crate) mod devices;
mod mounts;
mod process;
mod resources;
mod security;

use std::path::{Path, PathBuf};

use rubelet_cri::v1;
use serde_json::{Map, Value, json};

use super::error::{Error, Result};
use super::facts::Facts;
use super::user::User;
use crate::image::ImageConfig;

pub(crate) use capabilities::take as take_rights;
pub(crate) use mounts::{is_filled_last, plain};
pub(crate) use process::{signal_name, stop_signal};
pub(crate) use resources::{PIDS, linux as linux_resources, oom_score};

/// A namespace of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// The host's.
    Host,
    /// A new one for the container.
    New,
    /// An existing one.
    Join(PathBuf),
}

/// The namespaces that containers of one sandbox use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub(crate) pid: Namespace,
    pub(crate) ipc: Namespace,
    pub(crate) uts: Namespace,
    pub(crate) network: Namespace,
}

/// The files that the sandbox shares with its containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxFiles {
    /// The pod's shared memory; absent if the host's is used.
    pub(crate) shm: Option<PathBuf>,
    pub(crate) hosts: PathBuf,
    pub(crate) hostname: PathBuf,
    pub(crate) resolv_conf: PathBuf,
}

/// Everything that a spec is built from.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    pub(crate) config: &'a v1::ContainerConfig,
    pub(crate) sandbox: &'a v1::PodSandboxConfig,
    pub(crate) image: &'a ImageConfig,
    /// Whether it is the built-in image, to whose root nobody may write.
    pub(crate) host_image: bool,
    pub(crate) user: &'a User,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) files: &'a SandboxFiles,
    /// The paths of the image's own volumes in the container, and what is mounted there.
    pub(crate) image_volumes: &'a [(String, PathBuf)],
    /// The host's devices that the container gets, already looked up.
    pub(crate) devices: &'a [devices::Device],
    pub(crate) cgroup: &'a str,
    pub(crate) rootfs: &'a Path,
    pub(crate) facts: &'a Facts,
}

impl Input<'_> {
    fn security(&self) -> Option<&v1::LinuxContainerSecurityContext> {
        self.config.linux.as_ref()?.security_context.as_ref()
    }

    fn privileged(&self) -> bool {
        self.security().is_some_and(|context| context.privileged)
    }
}

/// Builds the spec.
pub(crate) fn build(input: &Input<'_>) -> Result<Value> {
    refuse_unknown(input)?;
    security::check(input)?;
    let root_readonly = input.host_image || input.security().is_some_and(|context| context.readonly_rootfs);
    let mounts = mounts::all(input)?;
    let resources = input.config.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    let mut cgroup_resources = resources::linux(resources, input.facts)?;
    cgroup_resources.insert("devices".to_owned(), devices::rules(input.privileged(), input.devices));
    let mut linux = Map::new();
    linux.insert("namespaces".to_owned(), namespaces(input));
    linux.insert("resources".to_owned(), Value::Object(cgroup_resources));
    if !input.cgroup.is_empty() {
        linux.insert("cgroupsPath".to_owned(), json!(input.cgroup));
    }
    linux.insert("devices".to_owned(), devices::nodes(input.devices));
    let (masked, readonly) = security::hidden_paths(input);
    linux.insert("maskedPaths".to_owned(), json!(masked));
    linux.insert("readonlyPaths".to_owned(), json!(readonly));
    let propagation = if mounts.spread_back { "shared" } else { "slave" };
    linux.insert("rootfsPropagation".to_owned(), json!(propagation));
    Ok(json!({
        "ociVersion": "1.0.2",
        "root": { "path": input.rootfs, "readonly": root_readonly },
        "process": process::init(input)?,
        "mounts": mounts.list,
        "linux": linux,
    }))
}

/// Whether any mount must propagate back to the host.
pub(crate) fn spreads_back(config: &v1::ContainerConfig) -> bool {
    config.mounts.iter().any(|mount| mount.propagation() == v1::MountPropagation::PropagationBidirectional)
}

fn refuse_unknown(input: &Input<'_>) -> Result<()> {
    let config = input.config;
    if config.windows.is_some() {
        return Err(Error::unsupported("windows", "not supported on Linux"));
    }
    if !config.cdi_devices.is_empty() {
        return Err(Error::unsupported("CDI_devices", "CDI device injection is not supported"));
    }
    if config.image.as_ref().is_some_and(|image| !image.runtime_handler.is_empty()) {
        return Err(Error::unsupported("image.runtime_handler", "there is only the default handler"));
    }
    if config.tty {
        return Err(Error::unsupported("tty", "terminals are not supported yet"));
    }
    Ok(())
}

fn namespaces(input: &Input<'_>) -> Value {
    let wanted = input.namespaces;
    let mut list = vec![json!({ "type": "mount" })];
    let entries =
        [("pid", &wanted.pid), ("ipc", &wanted.ipc), ("uts", &wanted.uts), ("network", &wanted.network)];
    for (kind, namespace) in entries {
        match namespace {
            Namespace::Host => {}
            Namespace::New => list.push(json!({ "type": kind })),
            Namespace::Join(path) => list.push(json!({ "type": kind, "path": path })),
        }
    }
    // With a single hierarchy, the container sees its own part of it; with several, each part is mounted on its own.
    if matches!(input.facts.cgroups, super::cgroup::Cgroups::V2(_)) && !input.privileged() {
        list.push(json!({ "type": "cgroup" }));
    }
    Value::Array(list)
}

#[cfg(test)]
mod tests;
