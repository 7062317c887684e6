//! What a pod and its containers were given to use, on disk: an agent that comes back knows what a changed manifest asks for
//! in addition. The runtime could not tell: it never hears of requests of memory, and rounds those of cpu.
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

/// What a pod and its containers were given. What is not known here is taken to be what the manifest says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grants {
    pub(crate) pod: Option<PodGrant>,
    containers: BTreeMap<String, Grant>,
}

/// What a pod as a whole was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PodGrant {
    /// Its class: where its control group is.
    pub(crate) class: String,
    /// What its control group was told.
    pub(crate) amounts: PodAmounts,
    /// What its manifest said of it as a whole then; not known of one that an older agent made.
    #[serde(default)]
    pub(crate) resources: Option<ResourceRequirements>,
}

impl PodGrant {
    /// What a pod is given that is made now.
    pub(crate) fn of(pod: &Pod, amounts: PodAmounts) -> Self {
        let own = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
        Self { class: qos_class(pod).as_str().to_owned(), amounts, resources: Some(own.unwrap_or_default()) }
    }
}

/// What a pod and its containers have, where it is known.
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

    /// The pod with these instead of what its manifest says.
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
    /// Which instance: written before it is made, so it is known by its number.
    attempt: u32,
    resources: ResourceRequirements,
    /// What its pod had as a whole then, and passed on of limits; not known of one that an older agent made.
    #[serde(default)]
    of_pod: Option<ResourceRequirements>,
}

impl Grants {
    /// What an instance of a container was given, if it is known.
    pub(crate) fn of(&self, instance: &ContainerStatus) -> Option<&ResourceRequirements> {
        let grant = self.containers.get(&*instance.name)?;
        (grant.attempt == instance.attempt).then_some(&grant.resources)
    }

    /// What the pod had as a whole that passed on its limits to an instance of a container, as far as is known.
    pub(crate) fn passed_on<'a>(
        &'a self,
        instance: &ContainerStatus,
        pod: &'a Pod,
    ) -> Option<&'a ResourceRequirements> {
        let grant = self.containers.get(&*instance.name).filter(|grant| grant.attempt == instance.attempt);
        grant.and_then(|grant| grant.of_pod.as_ref()).or_else(|| own(pod))
    }

    /// What holds for an instance of a container, if it is known.
    pub(crate) fn holding(&self, instance: &ContainerStatus, pod: &Pod) -> Option<ResourceRequirements> {
        Some(holding(Some(self.of(instance)?), self.passed_on(instance, pod)))
    }

    /// What was given, whichever instance of a container it was.
    pub(crate) fn into_sizes(self) -> Sizes {
        let containers = self.containers.into_iter().map(|(name, grant)| (name, grant.resources));
        Sizes { containers: containers.collect(), pod: self.pod.and_then(|given| given.resources) }
    }

    /// An instance of a container is made with these, in a pod that has those as a whole.
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

    /// What the newest instance of a container has of one resource is now as in these, in a pod that has those as a whole.
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

    /// Reads them. What is not there, or was damaged, is not known.
    pub(crate) fn read(path: &Path) -> Self {
        pod_file::read_or_default(path, "the resources allocated to a pod")
    }

    /// Writes them, if the pod's folder is there. Without it, an agent that comes back takes what the manifest says for
    /// given.
    pub(crate) fn note(&self, path: &Path, pod: &PodRef) {
        if let Err(error) = self.write(path) {
            tracing::warn!(%pod, %error, "cannot record the resources allocated to a pod");
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        pod_file::write(path, self, Outlives::Agent)
    }
}

/// Makes one resource of the second as it is in the first.
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
