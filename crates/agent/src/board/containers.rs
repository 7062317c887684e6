//! The names of a pod's containers, and which of them is the default.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use crate::manifest::annotation;

/// The names of a pod's containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerNames {
    /// All of them: first the one that is used by default, then those that run side by side.
    #[serde(rename = "containers")]
    pub all: Vec<String>,
    /// The default container that the pod itself declares, if any.
    #[serde(rename = "defaultContainer", skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl ContainerNames {
    /// Returns the names for this pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let mut all: Vec<String> = containers.map(|container| container.name.clone()).collect();
        let default = annotation::value(pod, annotation::DEFAULT_CONTAINER);
        let default = default.map(ToOwned::to_owned).filter(|name| all.contains(name));
        all.sort_by_key(|name| Some(name) != default.as_ref());
        Self { all, default }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    #[test]
    fn the_container_that_is_meant_comes_first() {
        for (annotation, all, default) in [
            (None, ["web", "log", "setup"], None),
            (Some("log"), ["log", "web", "setup"], Some("log")),
            (Some("x"), ["web", "log", "setup"], None),
        ] {
            let mut pod = testkit::pod("Always", &["setup"], &["web", "log"]);
            let annotated = |name: &str| (annotation::DEFAULT_CONTAINER.to_owned(), name.to_owned());
            pod.metadata.annotations = annotation.map(|name| [annotated(name)].into());
            let names = ContainerNames::of(&pod);
            assert_eq!((&names.all[..], names.default.as_deref()), (&all.map(str::to_owned)[..], default));
        }
    }
}
