//! A pod that may not start before another of its name is gone: if that takes long, it reports what it waits for.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::{Actor, Next};
use crate::board::{PodView, Stage};
use crate::runtime::{ImageStore, Runtime};

/// Most pods are gone sooner.
const FIRST: Duration = Duration::from_secs(10);

/// How often it is reported after that, since the reason may change.
const AGAIN: Duration = Duration::from_secs(60);

impl<R: Runtime + ImageStore> Actor<R> {
    pub(super) fn wait_for_predecessor(&mut self, pod: &Arc<Pod>) -> Next {
        let now = self.tools.clock.stamp();
        let Some(before) = self.board.find(|view| is_before(pod, view)) else {
            self.publish_again();
            // The pod in the way may not have begun to end yet.
            return Next::Idle(Some(now.plus(FIRST)));
        };
        let due = *self.tell_of_wait.get_or_insert_with(|| now.plus(FIRST));
        if due <= now {
            self.tell_of_wait = Some(now.plus(AGAIN));
            self.journal.warning(None, "NameTaken", waits_for(&before));
        }
        self.publish_again();
        Next::Idle(self.tell_of_wait)
    }
}

/// Whether `view` is a pod of the same name that is on its way out.
fn is_before(pod: &Pod, view: &PodView) -> bool {
    let (one, other) = (&view.pod.metadata, &pod.metadata);
    matches!(view.stage, Stage::Terminating | Stage::Terminated)
        && one.uid != other.uid
        && (&one.namespace, &one.name) == (&other.namespace, &other.name)
}

fn waits_for(before: &PodView) -> String {
    let trouble = before.events.iter().rev().find(|event| event.reason == "FailedKillPod");
    let why = match (trouble, before.stage) {
        (Some(trouble), _) => trouble.message.as_str(),
        (None, Stage::Terminated) => "it is being cleaned up",
        (None, _) => "its containers are being stopped",
    };
    let uid = before.pod.metadata.uid.as_deref().unwrap_or_default();
    format!("waiting for the previous pod of this name ({uid}) to go: {why}")
}
