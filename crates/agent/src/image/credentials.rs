//! The credentials of a pod and of the node.

use std::io;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::docker_config::{Credential, CredentialError, DockerConfig, of_config_json, of_secret};
use super::keyring::Keyring;
use super::name::repository;
use crate::manifest::Objects;

/// What a pod may show to registries: its own secrets first, then what the node has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    of_pod: Keyring,
    of_node: Keyring,
    /// Secrets that the pod names, and that are not there.
    pub(crate) missing: Vec<String>,
}

impl Credentials {
    /// Reads the secrets that a pod names.
    pub(crate) fn of(pod: &Pod, objects: &Objects, node: Arc<DockerConfig>) -> Result<Self, CredentialError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let names = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        let mut all = Self::default();
        for name in names.map(|reference| reference.name.as_str()) {
            match objects.secret(namespace, name) {
                Some(secret) => all.of_pod.add(of_secret(secret)?),
                None => all.missing.push(name.to_owned()),
            }
        }
        all.of_node.add(Arc::unwrap_or_clone(node));
        Ok(all)
    }

    /// What to try for an image, in this order; nothing if it is to be asked for by nobody in particular.
    pub(super) fn for_image(&self, name: &str) -> Vec<Credential> {
        let repository = repository(name);
        let (of_pod, of_node) = (self.of_pod.lookup(&repository), self.of_node.lookup(&repository));
        of_pod.into_iter().chain(of_node).collect()
    }
}

/// The credentials of the node: `config.json` in its data folder, as docker writes it. There need not be one.
pub(crate) async fn node_config(data: &Path) -> Result<Arc<DockerConfig>, CredentialError> {
    let path = data.join("config.json");
    match tokio::fs::read(&path).await {
        Ok(json) => of_config_json(&json, &path.display().to_string()).map(Arc::new),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Arc::default()),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot read the node's registry credentials");
            Ok(Arc::default())
        }
    }
}
