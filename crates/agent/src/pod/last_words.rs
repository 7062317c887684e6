//! The termination messages ("last words") of containers: a file of their own or, if they ask for it, the end of their
//! log.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodStatus};

use super::{files, spec};
use crate::disk::{Disk, PATIENCE};
use crate::volumes::PodDirectory;

/// The last words that were read, by container. None are read twice.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords {
    heard: BTreeMap<ContainerId, String>,
}

/// A container whose last words have not been read yet.
struct Unheard {
    id: ContainerId,
    folder: PathBuf,
    restart_count: u32,
    /// Where to look if it left none.
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
    /// Returns all last words of containers that still exist.
    pub(super) fn all(&self) -> &BTreeMap<ContainerId, String> {
        &self.heard
    }

    /// Reads the last words of containers that have ended since. What cannot be read now, because the disk fails or
    /// hangs, is tried again.
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
