//! What containers that ended have left to say: a file of their own, or, if they like, the end of their log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus};

use super::{files, spec};
use crate::off_thread::off_thread;
use crate::volumes::PodDirectory;

/// What was heard, by container. What is heard once is not read again.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords {
    heard: BTreeMap<ContainerId, String>,
}

/// A container whose last words were not heard yet.
struct Unheard {
    id: ContainerId,
    folder: PathBuf,
    restart_count: u32,
    /// Where to look if it said nothing.
    log: Option<PathBuf>,
}

impl LastWords {
    /// Everything that was heard of containers that are still there.
    pub(super) fn all(&self) -> &BTreeMap<ContainerId, String> {
        &self.heard
    }

    /// Listens to those that have ended since.
    pub(super) async fn hear(&mut self, pod: &Pod, status: &PodStatus, directory: &PodDirectory) {
        self.heard.retain(|id, _| status.container(id).is_some());
        let ended = status.containers.iter().filter(|container| container.state == ContainerState::Exited);
        let unheard: Vec<Unheard> = ended
            .filter(|container| !self.heard.contains_key(&container.id))
            .map(|container| Unheard {
                id: container.id.clone(),
                folder: directory.container(&container.name),
                restart_count: container.restart_count,
                log: shows_log(pod, container).then(|| PathBuf::from(&*container.log_path)),
            })
            .collect();
        if unheard.is_empty() {
            return;
        }
        let read = |one: Unheard| {
            let of_log = || one.log.as_deref().and_then(files::end_of_log);
            let words = files::last_words(&one.folder, one.restart_count).or_else(of_log);
            (one.id, words.unwrap_or_default())
        };
        self.heard.extend(off_thread(move || unheard.into_iter().map(read).collect::<Vec<_>>()).await);
    }
}

fn shows_log(pod: &Pod, ended: &ContainerStatus) -> bool {
    let container = spec::all_containers(pod).find(|container| *container.name == *ended.name);
    let policy = container.and_then(|container| container.termination_message_policy.as_deref());
    policy == Some("FallbackToLogsOnError") && ended.exit_code != 0 && &*ended.reason != "ContainerCannotRun"
}
