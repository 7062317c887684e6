//! What containers that ended have left to say: a file of their own, or, if they like, the end of their log.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus};

use super::{files, spec};
use crate::disk::{Disk, PATIENCE};
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

impl Unheard {
    fn read(&self) -> io::Result<String> {
        let words = match files::last_words(&self.folder, self.restart_count)? {
            Some(words) => Some(words),
            None => self.log.as_deref().map(files::end_of_log).transpose()?.flatten(),
        };
        Ok(words.unwrap_or_default())
    }
}

impl LastWords {
    /// Everything that was heard of containers that are still there.
    pub(super) fn all(&self) -> &BTreeMap<ContainerId, String> {
        &self.heard
    }

    /// Listens to those that have ended since. Who cannot be heard now, since the disk fails or hangs, is listened to again.
    pub(super) async fn hear(
        &mut self,
        pod: &Pod,
        status: &PodStatus,
        directory: &PodDirectory,
        disk: &Disk,
    ) {
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
        let read = |one: Unheard| match one.read() {
            Ok(words) => Some((one.id, words)),
            Err(error) => {
                tracing::warn!(container = %one.id, %error, "cannot read the termination message of a container yet");
                None
            }
        };
        let read = move |_: &_| unheard.into_iter().filter_map(read).collect::<Vec<_>>();
        match disk.work_within(PATIENCE, "the termination messages of its containers", read).await {
            Ok(heard) => self.heard.extend(heard),
            Err(hangs) => {
                tracing::warn!(pod = %status.pod, %hangs, "cannot read the termination messages of containers yet");
            }
        }
    }
}

fn shows_log(pod: &Pod, ended: &ContainerStatus) -> bool {
    let container = spec::all_containers(pod).find(|container| *container.name == *ended.name);
    let policy = container.and_then(|container| container.termination_message_policy.as_deref());
    policy == Some("FallbackToLogsOnError") && ended.exit_code != 0 && &*ended.reason != "ContainerCannotRun"
}
