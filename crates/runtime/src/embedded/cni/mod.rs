//! CNI: the pod's network, set up by external plugins.

mod config;
mod plugin;
mod result;

use std::path::{Path, PathBuf};

use rubelet_cri::v1;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::config::NetworkList;
use super::error::{Error, Result};
use super::runtime::blocking;
use super::store::{self, Durability};

/// Written before the first plugin runs, removed after the last one has undone its work.
const ATTACHMENT: &str = "cni.json";
const INTERFACE: &str = "eth0";

/// Where to find configurations and plugins.
#[derive(Debug)]
pub(crate) struct Cni {
    conf_dir: PathBuf,
    bin_dirs: Vec<PathBuf>,
}

/// An attachment that has to be undone.
#[derive(Debug, Serialize, Deserialize)]
struct Attachment {
    network: NetworkList,
    args: String,
    port_mappings: Value,
    /// The plugins' result, which they read when they undo it.
    result: Option<Value>,
}

impl Attachment {
    /// Writes the attachment to disk, and returns it.
    async fn note(self, file: &Path) -> Result<Self> {
        let file = file.to_owned();
        blocking(move || store::write_json(&file, &self, Durability::Process).map(|()| self)).await
    }
}

/// Whether a sandbox has an attachment that has to be undone.
pub(crate) fn is_attached(folder: &Path) -> bool {
    folder.join(ATTACHMENT).exists()
}

impl Cni {
    pub(crate) fn new(conf_dir: PathBuf, bin_dirs: Vec<PathBuf>) -> Self {
        Self { conf_dir, bin_dirs }
    }

    /// Returns the configuration in force: the first file by name.
    pub(crate) fn network(&self) -> Result<NetworkList> {
        config::load(&self.conf_dir)
    }

    /// Attaches a sandbox's network namespace, and returns the pod's addresses.
    pub(crate) async fn add(
        &self,
        folder: &Path,
        id: &str,
        pod: &v1::PodSandboxConfig,
    ) -> Result<Vec<String>> {
        let conf_dir = self.conf_dir.clone();
        let network = blocking(move || config::load(&conf_dir)).await?;
        let attachment =
            Attachment { args: args(id, pod), port_mappings: port_mappings(pod), network, result: None };
        if attachment.port_mappings.as_array().is_some_and(|list| !list.is_empty())
            && !attachment.network.plugins.iter().any(|plugin| config::has_capability(plugin, "portMappings"))
        {
            let problem =
                format!("no plugin of the network {:?} supports port mappings", attachment.network.name);
            return Err(Error::unsupported("config.port_mappings", problem));
        }
        let file = folder.join(ATTACHMENT);
        let mut attachment = attachment.note(&file).await?;
        for plugin in &attachment.network.plugins {
            let input =
                attachment.network.input(plugin, attachment.result.as_ref(), &attachment.port_mappings);
            let output = self.run("ADD", &namespace(folder), id, &attachment.args, plugin, &input).await?;
            attachment.result = Some(output);
        }
        let attachment = attachment.note(&file).await?;
        let result = attachment.result.unwrap_or_default();
        let ips = result::addresses(&result);
        if ips.is_empty() {
            return Err(Error::Network(format!(
                "the network {:?} did not assign the pod an address",
                attachment.network.name
            )));
        }
        Ok(ips)
    }

    /// Undoes [`Cni::add`]. May be repeated.
    pub(crate) async fn delete(&self, folder: &Path, id: &str) -> Result<()> {
        let file = folder.join(ATTACHMENT);
        let (noted, sandbox) = (file.clone(), folder.to_owned());
        let found = blocking(move || {
            let attachment = store::read_json::<Attachment>(&noted)?;
            Ok(attachment.map(|attachment| (attachment, held_namespace(&sandbox))))
        });
        let Some((attachment, namespace)) = found.await? else { return Ok(()) };
        for plugin in attachment.network.plugins.iter().rev() {
            let input =
                attachment.network.input(plugin, attachment.result.as_ref(), &attachment.port_mappings);
            self.run("DEL", &namespace, id, &attachment.args, plugin, &input).await?;
        }
        blocking(move || {
            std::fs::remove_file(&file)
                .map_err(|error| Error::io(format!("remove {}", file.display()), error))
        })
        .await
    }

    async fn run(
        &self,
        verb: &str,
        namespace: &Path,
        id: &str,
        args: &str,
        plugin: &Value,
        input: &Value,
    ) -> Result<Value> {
        let call =
            plugin::Call { verb, container: id, namespace, interface: INTERFACE, args, path: &self.bin_dirs };
        plugin::run(plugin["type"].as_str().unwrap_or_default(), &call, input).await
    }
}

fn namespace(folder: &Path) -> PathBuf {
    folder.join(super::namespaces::NS).join("net")
}

/// Returns the path of a sandbox's network namespace, or an empty path, which means "none" to plugins, if nothing holds
/// it any more: after a reboot, the file exists but nothing is mounted on it.
fn held_namespace(folder: &Path) -> PathBuf {
    const NSFS: rustix::fs::FsWord = 0x6e73_6673;
    let path = namespace(folder);
    match rustix::fs::statfs(&path) {
        Ok(found) if found.f_type == NSFS => path,
        _ => PathBuf::new(),
    }
}

fn args(id: &str, pod: &v1::PodSandboxConfig) -> String {
    let meta = pod.metadata.clone().unwrap_or_default();
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID={}",
        meta.namespace, meta.name, meta.uid
    )
}

fn port_mappings(pod: &v1::PodSandboxConfig) -> Value {
    let mapped = pod.port_mappings.iter().filter(|mapping| mapping.host_port > 0);
    mapped
        .map(|mapping| {
            json!({
                "hostPort": mapping.host_port,
                "containerPort": mapping.container_port,
                "protocol": mapping.protocol().as_str_name().to_lowercase(),
                "hostIP": mapping.host_ip,
            })
        })
        .collect()
}
