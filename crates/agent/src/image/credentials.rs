//! The credentials of a pod and of the node.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::docker_config::{Credential, CredentialError, DockerConfig, of_config_json, of_secret};
use super::keyring::Keyring;
use super::name::repository;
use crate::manifest::Objects;

/// How many credentials are tried for one pull: each failure is a call, and other pulls wait in the meantime.
pub(super) const MOST_TRIED: usize = 20;

/// What to try for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToTry {
    /// In this order. If empty, the pull is anonymous.
    pub(super) credentials: Vec<Credential>,
    /// How many more would match.
    pub(super) left_out: usize,
}

/// The credentials that a pod may present to registries: first those in its own secrets, then those of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    of_pod: Keyring,
    of_node: Keyring,
    /// Secrets that the pod names but that do not exist.
    pub(crate) missing: Vec<String>,
}

impl Credentials {
    /// Reads the secrets that a pod names.
    pub(crate) fn of(pod: &Pod, objects: &Objects, node: Arc<DockerConfig>) -> Result<Self, CredentialError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let names = pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten());
        let (mut all, mut seen) = (Self::default(), BTreeSet::new());
        for name in names.map(|reference| reference.name.as_str()) {
            if !seen.insert(name) {
                continue;
            }
            match objects.secret(namespace, name) {
                Some(secret) => all.of_pod.add(of_secret(secret)?),
                None => all.missing.push(name.to_owned()),
            }
        }
        all.of_node.add(Arc::unwrap_or_clone(node));
        Ok(all)
    }

    /// Returns what to try for an image, without duplicates.
    pub(super) fn for_image(&self, name: &str) -> ToTry {
        let repository = repository(name);
        let (of_pod, of_node) = (self.of_pod.lookup(&repository), self.of_node.lookup(&repository));
        let mut to_try = ToTry::default();
        for credential in of_pod.into_iter().chain(of_node) {
            if to_try.credentials.contains(&credential) {
                continue;
            }
            if to_try.credentials.len() < MOST_TRIED {
                to_try.credentials.push(credential);
            } else {
                to_try.left_out += 1;
            }
        }
        to_try
    }
}

/// Reads the credentials of the node: `config.json` in its data folder, in docker's format. The file is optional.
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

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::{LocalObjectReference, Secret};

    use super::*;
    use crate::manifest::ObjectKey;
    use crate::pod::testkit;

    /// Returns a secret with this user for each of so many paths of one registry.
    fn secret(user: &str, places: usize) -> Secret {
        let entry = serde_json::json!({"username": user, "password": "x"});
        let auths: std::collections::BTreeMap<String, serde_json::Value> =
            (0..places).map(|n| (format!("r.io{}", "/".repeat(n)), entry.clone())).collect();
        let json = serde_json::json!({ "auths": auths }).to_string();
        Secret {
            type_: Some("kubernetes.io/dockerconfigjson".to_owned()),
            data: Some([(".dockerconfigjson".to_owned(), ByteString(json.into_bytes()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn each_credential_is_tried_once_and_not_too_many_are() {
        let all: Vec<String> = (0..25).map(|n| format!("s{n:02}")).collect();
        let objects = Objects {
            secrets: all
                .iter()
                .map(|name| (ObjectKey::new("default", name.as_str()), Arc::new(secret(name, 1))))
                .chain([(ObjectKey::new("default", "again"), Arc::new(secret("s00", 2)))])
                .collect(),
            ..Objects::default()
        };
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let table = [
            (vec![], vec![], 0, vec![]),
            (vec!["s01", "s00"], vec!["s01", "s00"], 0, vec![]),
            (vec!["s00"; 5000], vec!["s00"], 0, vec![]),
            (vec!["s00", "again"], vec!["s00"], 0, vec![]),
            (vec!["gone", "s00", "gone"], vec!["s00"], 0, vec!["gone"]),
            (all.clone(), all[..MOST_TRIED].to_vec(), 5, vec![]),
        ];
        for (named, users, left_out, missing) in table {
            let mut pod = testkit::pod("Always", &[], &["c"]);
            let reference = |name: &&str| LocalObjectReference { name: (*name).to_owned() };
            pod.spec.as_mut().unwrap().image_pull_secrets = Some(named.iter().map(reference).collect());
            let credentials = Credentials::of(&pod, &objects, Arc::default()).unwrap();
            let to_try = credentials.for_image("r.io/a:1");
            let tried: Vec<&str> = to_try.credentials.iter().map(|one| one.username.as_str()).collect();
            assert_eq!((tried, to_try.left_out), (users, left_out), "{named:?}");
            assert_eq!(credentials.missing, missing, "{named:?}");
        }
    }
}
