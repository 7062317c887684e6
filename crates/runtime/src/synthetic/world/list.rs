//! Answers of list calls: filters as runtimes apply them, entries encoded once, in a meaningless order.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;
use rubelet_cri::v1;

use super::id::by_prefix;
use super::status::{image_id, wire_container_state, wire_sandbox_state};
use super::{Container, Sandbox, World};

/// An entry of a list: its target, and its encoded form.
#[derive(Clone, Debug)]
pub(crate) struct Listed<'a, T> {
    pub(crate) about: &'a T,
    pub(crate) entry: Bytes,
}

impl World {
    /// Returns the sandboxes that pass a filter, in a new random order.
    pub(crate) fn list_sandboxes(
        &mut self,
        filter: Option<&v1::PodSandboxFilter>,
    ) -> Vec<Listed<'_, Sandbox>> {
        let order = self.next_list_order("ListPodSandbox");
        let left_out = self.sandboxes_left_out();
        let default = v1::PodSandboxFilter::default();
        let filter = filter.unwrap_or(&default);
        // A short id is completed if possible; an ambiguous one matches nothing here.
        let by_id = (!filter.id.is_empty()).then(|| by_prefix(&self.sandboxes, &filter.id).ok());
        let mut found: Vec<&Sandbox> = match (by_id, self.sandbox_labels.narrow(&filter.label_selector)) {
            (Some(one), _) => one.into_iter().collect(),
            (None, Some(ids)) => ids.map(|id| &self.sandboxes[id]).collect(),
            (None, None) => self.sandboxes.values().collect(),
        };
        found.retain(|sandbox| {
            filter.state.as_ref().is_none_or(|wanted| wanted.state == wire_sandbox_state(sandbox.state))
                && matches(&sandbox.config.labels, &filter.label_selector)
                && left_out.as_ref().is_none_or(|left_out| !left_out(&sandbox.id))
        });
        shuffled(found, order, |sandbox| sandbox.entry.get_or_init(|| encode_sandbox(sandbox)).clone())
    }

    /// Returns the containers that pass a filter, in a new random order.
    pub(crate) fn list_containers(
        &mut self,
        filter: Option<&v1::ContainerFilter>,
    ) -> Vec<Listed<'_, Container>> {
        let order = self.next_list_order("ListContainers");
        let left_out = self.containers_left_out();
        let default = v1::ContainerFilter::default();
        let filter = filter.unwrap_or(&default);
        let by_id = (!filter.id.is_empty()).then(|| by_prefix(&self.containers, &filter.id).ok());
        let sandbox = (!filter.pod_sandbox_id.is_empty())
            .then(|| by_prefix(&self.sandboxes, &filter.pod_sandbox_id).ok());
        let mut found: Vec<&Container> =
            match (by_id, &sandbox, self.container_labels.narrow(&filter.label_selector)) {
                (Some(one), _, _) => one.into_iter().collect(),
                (None, Some(sandbox), _) => {
                    sandbox.iter().flat_map(|sandbox| self.containers_of(&sandbox.id)).collect()
                }
                (None, None, Some(ids)) => ids.map(|id| &self.containers[id]).collect(),
                (None, None, None) => self.containers.values().collect(),
            };
        found.retain(|container| {
            sandbox.is_none_or(|wanted| wanted.is_some_and(|wanted| wanted.id == container.sandbox))
                && filter
                    .state
                    .as_ref()
                    .is_none_or(|wanted| wanted.state == wire_container_state(container.state))
                && matches(&container.config.labels, &filter.label_selector)
                && left_out.as_ref().is_none_or(|left_out| !left_out(&container.id))
        });
        shuffled(found, order, |container| {
            container.entry.get_or_init(|| encode_container(container)).clone()
        })
    }

    fn next_list_order(&mut self, what: &str) -> fastrand::Rng {
        self.lists_made += 1;
        self.seed.rng("order", what, self.lists_made)
    }
}

fn shuffled<'a, T>(
    mut found: Vec<&'a T>,
    mut order: fastrand::Rng,
    entry: impl Fn(&'a T) -> Bytes,
) -> Vec<Listed<'a, T>> {
    order.shuffle(&mut found);
    found.into_iter().map(|about| Listed { about, entry: entry(about) }).collect()
}

fn matches(labels: &HashMap<String, String>, selector: &HashMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn encode_sandbox(sandbox: &Sandbox) -> Bytes {
    v1::PodSandbox {
        id: sandbox.id.as_str().to_owned(),
        metadata: sandbox.config.metadata.clone(),
        state: wire_sandbox_state(sandbox.state),
        created_at: sandbox.created_at,
        labels: sandbox.config.labels.clone(),
        annotations: sandbox.config.annotations.clone(),
        runtime_handler: sandbox.runtime_handler.clone(),
    }
    .encode_to_vec()
    .into()
}

fn encode_container(container: &Container) -> Bytes {
    let config = &container.config;
    let image = config.image.clone().unwrap_or_default();
    let image_id = image_id(&image.image);
    v1::Container {
        id: container.id.as_str().to_owned(),
        pod_sandbox_id: container.sandbox.as_str().to_owned(),
        metadata: config.metadata.clone(),
        image: Some(image),
        image_ref: image_id.clone(),
        state: wire_container_state(container.state),
        created_at: container.created_at,
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        image_id,
    }
    .encode_to_vec()
    .into()
}
