//! The part of an image's configuration that a container inherits.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// What the image says about how to run it. An empty field means that the image does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The program, to which the arguments are appended.
    pub entrypoint: Vec<String>,
    /// The default arguments, or the program if there is no entrypoint.
    pub cmd: Vec<String>,
    /// `NAME=value` pairs, in order.
    pub env: Vec<String>,
    /// `user`, `uid`, `user:group` or `uid:gid`.
    pub user: String,
    /// The directory in which the program starts.
    pub working_dir: String,
    /// The signal that asks the program to stop: a name or a number.
    pub stop_signal: Option<String>,
    /// `port/protocol`, as written.
    pub exposed_ports: Vec<String>,
    /// Paths that should get storage of their own.
    pub volumes: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// The reason why a configuration blob cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not the JSON of an image configuration.
    #[error("the image configuration is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// Its root filesystem is not of the type `layers`.
    #[error("the image's rootfs is of type {0:?}, but only \"layers\" is supported")]
    RootfsType(String),
}

/// A parsed configuration blob: what to run, on which platform, and the layers it is made of.
#[derive(Debug)]
pub(crate) struct ConfigBlob {
    pub(crate) config: ImageConfig,
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) diff_ids: Vec<Digest>,
}

impl ConfigBlob {
    /// Parses a blob of either format, OCI or docker: they agree on every field used here.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let wire: Wire = serde_json::from_slice(json)?;
        if !matches!(wire.rootfs.kind.as_str(), "" | "layers") {
            return Err(ConfigError::RootfsType(wire.rootfs.kind));
        }
        let run = wire.config.unwrap_or_default();
        Ok(Self {
            config: ImageConfig {
                entrypoint: run.entrypoint.unwrap_or_default(),
                cmd: run.cmd.unwrap_or_default(),
                env: run.env.unwrap_or_default(),
                user: run.user.unwrap_or_default(),
                working_dir: run.working_dir.unwrap_or_default(),
                stop_signal: run.stop_signal.filter(|signal| !signal.is_empty()),
                exposed_ports: keys(run.exposed_ports),
                volumes: keys(run.volumes),
                labels: run.labels.unwrap_or_default(),
            },
            os: wire.os.unwrap_or_default(),
            architecture: wire.architecture.unwrap_or_default(),
            diff_ids: wire.rootfs.diff_ids.unwrap_or_default(),
        })
    }
}

fn keys(map: Option<BTreeMap<String, serde::de::IgnoredAny>>) -> Vec<String> {
    map.unwrap_or_default().into_keys().collect::<BTreeSet<_>>().into_iter().collect()
}

// Builders write `null` for "nothing" in almost any field.
#[derive(Deserialize)]
struct Wire {
    config: Option<WireRun>,
    os: Option<String>,
    architecture: Option<String>,
    rootfs: WireRootfs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireRun {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
    exposed_ports: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    volumes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct WireRootfs {
    #[serde(rename = "type", default)]
    kind: String,
    diff_ids: Option<Vec<Digest>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_missing_fields_mean_nothing() {
        let blob = ConfigBlob::parse(
            br#"{"os":"linux","config":{"Cmd":null,"Env":["A=b"],"ExposedPorts":{"80/tcp":{}},"Volumes":null,
                "Labels":null,"StopSignal":""},"rootfs":{"type":"layers","diff_ids":null},"history":[{}]}"#,
        )
        .unwrap();
        assert_eq!(blob.config.env, ["A=b"]);
        assert_eq!(blob.config.exposed_ports, ["80/tcp"]);
        assert_eq!(blob.config.stop_signal, None);
        assert!(blob.diff_ids.is_empty());
        assert_eq!(blob.architecture, "");
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for json in
            ["", "[]", "{}", r#"{"rootfs":{"type":"magic"}}"#, r#"{"rootfs":{"diff_ids":["sha256:../x"]}}"#]
        {
            assert!(ConfigBlob::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
