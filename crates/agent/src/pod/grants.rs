//! The resources that a pod and its containers were given, on disk, so that an agent that comes back knows what a
//! changed manifest asks for in addition. The runtime cannot tell: it is never told memory requests, and rounds cpu
//! requests.
//!
//! Reading and writing block: call them off the async threads.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use rubelet_model::{ContainerStatus, PodRef};
use serde::{Deserialize, Serialize};

use super::config::{PodAmounts, qos_class};
use super::demand::own;
use super::resize::{Resource, holding, with_sizes};
use crate::pod_file::{self, Outlives};

/// What a pod and its containers were given. Whatever is missing here is assumed to be what the manifest says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grants {
    pub(crate) pod: Option<PodGrant>,
    containers: BTreeMap<String, Grant>,
}

/// What a pod as a whole was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PodGrant {
    /// Its QoS class, which determines where its control group is.
    pub(crate) class: String,
    /// The values of its control group.
    pub(crate) amounts: PodAmounts,
    /// The resources of the pod as a whole in its manifest at that time; `None` if an older agent made the pod.
    #[serde(default)]
    pub(crate) resources: Option<ResourceRequirements>,
}

impl PodGrant {
    /// Returns what a pod is given that is made now.
    pub(crate) fn of(pod: &Pod, amounts: PodAmounts) -> Self {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
        Self { class: qos_class(pod).as_str().to_owned(), amounts, resources: Some(own.unwrap_or_default()) }
    }
}

/// What a pod and its containers have, as far as known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sizes {
    /// By name.
    pub(crate) containers: BTreeMap<String, ResourceRequirements>,
    /// The pod as a whole.
    pub(crate) pod: Option<ResourceRequirements>,
}

impl Sizes {
    pub(crate) fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.pod.is_none()
    }

    /// Returns the pod with these resources instead of those of its manifest.
    pub(crate) fn put_into(&self, pod: &Pod) -> Pod {
        let mut pod = with_sizes(pod, |name| self.containers.get(name).cloned());
        if let (Some(own), Some(spec)) = (&self.pod, &mut pod.spec) {
            spec.resources = Some(own.clone()).filter(|own| *own != ResourceRequirements::default());
        }
        pod
    }
}

/// What the newest instance of a container was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Grant {
    /// The number of the instance: this is written before the instance is made and has an id.
    attempt: u32,
    resources: ResourceRequirements,
    /// The resources of its pod as a whole at that time, whose limits it inherits; `None` if an older agent made it.
    #[serde(default)]
    of_pod: Option<ResourceRequirements>,
}

impl Grants {
    /// What an instance of a container was given, if known.
    pub(crate) fn of(&self, instance: &ContainerStatus) -> Option<&ResourceRequirements> {
        let grant = self.containers.get(&*instance.name)?;
        (grant.attempt == instance.attempt).then_some(&grant.resources)
    }

    /// The resources of the pod as a whole whose limits an instance of a container inherits, as far as known.
    pub(crate) fn passed_on<'a>(
        &'a self,
        instance: &ContainerStatus,
        pod: &'a Pod,
    ) -> Option<&'a ResourceRequirements> {
        let grant = self.containers.get(&*instance.name).filter(|grant| grant.attempt == instance.attempt);
        grant.and_then(|grant| grant.of_pod.as_ref()).or_else(|| own(pod))
    }

    /// What holds for an instance of a container, if known.
    pub(crate) fn holding(&self, instance: &ContainerStatus, pod: &Pod) -> Option<ResourceRequirements> {
        Some(holding(Some(self.of(instance)?), self.passed_on(instance, pod)))
    }

    /// What was given, whichever instance of a container it was given to.
    pub(crate) fn into_sizes(self) -> Sizes {
        let containers = self.containers.into_iter().map(|(name, grant)| (name, grant.resources));
        Sizes { containers: containers.collect(), pod: self.pod.and_then(|given| given.resources) }
    }

    /// Notes that an instance of a container is made with `resources`, in a pod that has `of_pod` as a whole.
    pub(crate) fn give(
        &mut self,
        name: &str,
        attempt: u32,
        resources: Option<&ResourceRequirements>,
        of_pod: Option<&ResourceRequirements>,
    ) {
        let resources = resources.cloned().unwrap_or_default();
        let of_pod = Some(of_pod.cloned().unwrap_or_default());
        self.containers.insert(name.to_owned(), Grant { attempt, resources, of_pod });
    }

    /// Notes that the newest instance of a container now has `now` of one resource, in a pod that has `of_pod` as a
    /// whole.
    pub(crate) fn change(
        &mut self,
        name: &str,
        resource: Resource,
        now: Option<&ResourceRequirements>,
        of_pod: Option<&ResourceRequirements>,
    ) {
        let Some(grant) = self.containers.get_mut(name) else { return };
        copy(resource, now, &mut grant.resources);
        if let Some(known) = &mut grant.of_pod {
            copy(resource, of_pod, known);
        }
    }

    /// Reads the grants from disk. If the file is missing or damaged, nothing is known.
    pub(crate) fn read(path: &Path) -> Self {
        pod_file::read_or_default(path, "the resources allocated to a pod")
    }

    /// Writes the grants to disk, if the pod's folder exists. Without them, an agent that comes back assumes that what
    /// the manifest says was given.
    pub(crate) fn note(&self, path: &Path, pod: &PodRef) {
        if let Err(error) = self.write(path) {
            tracing::warn!(%pod, %error, "cannot record the resources allocated to a pod");
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        pod_file::write(path, self, Outlives::Agent)
    }
}

/// Copies one resource from the first to the second.
fn copy(resource: Resource, from: Option<&ResourceRequirements>, to: &mut ResourceRequirements) {
    let sides = [
        (&mut to.requests, from.and_then(|from| from.requests.as_ref())),
        (&mut to.limits, from.and_then(|from| from.limits.as_ref())),
    ];
    for (old, new) in sides {
        match new.and_then(|amounts| amounts.get(resource.name())) {
            Some(amount) => {
                old.get_or_insert_default().insert(resource.name().to_owned(), amount.clone());
            }
            None => {
                old.get_or_insert_default().remove(resource.name());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit::{Is, instance, resources};

    #[test]
    fn what_was_given_is_known_to_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resources.json");
        assert_eq!(Grants::read(&path), Grants::default());
        let mut grants = Grants::default();
        grants.give("c", 2, Some(&resources("100m", "64Mi")), None);
        grants.pod = Some(PodGrant::of(&Pod::default(), PodAmounts::default()));
        grants.write(&path).unwrap();
        let known = Grants::read(&path);
        assert_eq!(known, grants);
        assert_eq!(known.of(&instance("c", 2, Is::Running, "s")), Some(&resources("100m", "64Mi")));
        assert_eq!(known.of(&instance("c", 3, Is::Running, "s")), None, "of another instance");
        assert_eq!(known.of(&instance("d", 2, Is::Running, "s")), None);
        std::fs::write(&path, "{\"pod\": 5").unwrap();
        assert_eq!(Grants::read(&path), Grants::default());
        grants.write(&folder.path().join("gone/resources.json")).unwrap();
    }

    #[test]
    fn one_resource_changes_at_a_time() {
        let mut grants = Grants::default();
        let running = instance("c", 0, Is::Running, "s");
        grants.give("c", 0, Some(&resources("100m", "64Mi")), None);
        grants.change("c", Resource::Memory, Some(&resources("200m", "32Mi")), None);
        assert_eq!(grants.of(&running), Some(&resources("100m", "32Mi")));
        grants.change("c", Resource::Cpu, Some(&resources("200m", "32Mi")), None);
        assert_eq!(grants.of(&running), Some(&resources("200m", "32Mi")));
        grants.change("c", Resource::Cpu, None, None);
        assert!(!grants.of(&running).unwrap().limits.as_ref().unwrap().contains_key("cpu"));
        grants.change("unknown", Resource::Cpu, None, None);
    }

    #[test]
    fn limits_that_a_container_has_from_its_pod_hold_until_they_are_changed() {
        let limit = |memory: &str| resources("1", memory).limits.unwrap()["memory"].clone();
        let mut pod = Pod::default();
        let of_pod = resources("1", "64Mi");
        let mut grants = Grants::default();
        let running = instance("c", 0, Is::Running, "s");
        assert_eq!(grants.holding(&running, &pod), None);
        grants.give("c", 0, None, Some(&of_pod));
        pod.spec.get_or_insert_default().resources = Some(resources("2", "128Mi"));
        let holds = |grants: &Grants| grants.holding(&running, &pod).unwrap().limits.unwrap();
        assert_eq!(holds(&grants), of_pod.limits.clone().unwrap());
        grants.change("c", Resource::Memory, None, own(&pod));
        assert_eq!((&holds(&grants)["memory"], &holds(&grants)["cpu"].0), (&limit("128Mi"), &"1".to_owned()));
        grants.give("c", 0, Some(&resources("1", "32Mi")), own(&pod));
        assert_eq!(holds(&grants)["memory"], limit("32Mi"), "its own come first");
    }
}
