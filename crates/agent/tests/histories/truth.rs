//! What really runs, by the runtime's own world, and what must never be true of it.

use std::collections::{BTreeMap, BTreeSet};

use rubelet_runtime::synthetic::{Container, ContainerState, World};

/// A container that lives: the name of its pod, its own, and its image, which names the version of the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Live {
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) version: String,
}

pub(crate) fn live(world: &World) -> Vec<Live> {
    let lives = |container: &&Container| {
        matches!(container.state(), ContainerState::Running | ContainerState::Unknown)
    };
    let mut all: Vec<Live> = world
        .containers()
        .filter(lives)
        .map(|container| {
            let sandbox = world.sandbox(container.sandbox());
            let metadata = sandbox.and_then(|sandbox| sandbox.config().metadata.clone()).unwrap_or_default();
            let environment = &container.config().envs;
            let version = environment.iter().find(|entry| entry.key == "VERSION");
            Live {
                pod: metadata.name,
                container: container.name().to_owned(),
                version: version
                    .map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
                    .unwrap_or_default(),
            }
        })
        .collect();
    all.sort();
    all
}

/// What must never be: two live containers of one name in a pod, or of two versions of a pod.
pub(crate) fn broken_rule(world: &World) -> Option<String> {
    let all = live(world);
    let mut names = BTreeSet::new();
    let double = all.iter().find(|one| !names.insert((&one.pod, &one.container)));
    if let Some(double) = double {
        return Some(format!("two of {double:?}: {all:#?}"));
    }
    let mut versions = BTreeMap::new();
    let mixed = all.iter().find(|one| **versions.entry(&one.pod).or_insert(&one.version) != one.version);
    mixed.map(|mixed| format!("two versions of {mixed:?}: {all:#?}"))
}
