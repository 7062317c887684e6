//! The status of the runtime and, in verbose answers, further information about a container.

use std::collections::HashMap;
use std::sync::Arc;

use rubelet_cri::v1;
use serde_json::json;

use super::container;
use super::error::Result;
use super::registry::Container;
use super::runtime::{Runtime, blocking};
use super::state::ContainerState;
use super::store;

impl Runtime {
    /// `Status`.
    pub(crate) async fn status(self: &Arc<Self>, verbose: bool) -> Result<v1::StatusResponse> {
        let (network_ready, reason, message) = match &self.cni {
            None => (
                true,
                "",
                "no CNI configuration is given: pods that are not on the host's network have loopback only"
                    .to_owned(),
            ),
            Some(cni) => match cni.network() {
                Ok(_) => (true, "", String::new()),
                Err(error) => (false, "NetworkPluginNotReady", error.to_string()),
            },
        };
        let condition = |kind: &str, status: bool, reason: &str, message: String| v1::RuntimeCondition {
            r#type: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message,
        };
        let mut info = HashMap::new();
        if verbose {
            let config = json!({
                "dataDir": self.layout.root(),
                "cgroups": format!("{:?}", self.facts.cgroups),
                "capabilities": self.facts.capabilities,
                "oomScoreFloor": self.facts.oom_score_floor,
                "rootless": self.facts.rootless,
            });
            info.insert("config".to_owned(), config.to_string());
        }
        Ok(v1::StatusResponse {
            status: Some(v1::RuntimeStatus {
                conditions: vec![
                    condition("RuntimeReady", true, "", String::new()),
                    condition("NetworkReady", network_ready, reason, message),
                ],
            }),
            info,
            runtime_handlers: vec![v1::RuntimeHandler {
                name: String::new(),
                features: Some(v1::RuntimeHandlerFeatures {
                    recursive_read_only_mounts: true,
                    user_namespaces: false,
                }),
            }],
            features: Some(v1::RuntimeFeatures {
                supplemental_groups_policy: true,
                user_namespaces_host_network: false,
            }),
        })
    }

    /// Returns everything else that is known about a container.
    pub(crate) async fn container_info(&self, container: &Container) -> Result<HashMap<String, String>> {
        let path = self.layout.container(container.id()).join(container::SPEC);
        let spec = blocking(move || store::read_json::<serde_json::Value>(&path)).await?;
        let pid = match container.state() {
            ContainerState::Running { pid, .. } => pid,
            _ => 0,
        };
        let info = json!({
            "sandboxID": container.record.sandbox,
            "pid": pid,
            "record": container.record,
            "runtimeSpec": spec,
        });
        Ok(HashMap::from([("info".to_owned(), info.to_string())]))
    }
}
