//! Keeps the logs of running containers within bounds. This covers only the agent's own pods; others are not its
//! business.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use pleg::CacheReader;
use rubelet_model::{ContainerId, ContainerState, PodUid};
use tokio::time::MissedTickBehavior;

use super::log_files::{Need, need, put_back, rotate};
use super::log_plan::LogPolicy;
use crate::log_reader::LogReader;
use crate::off_thread::off_thread;
use crate::runtime::Runtime;
use crate::volumes::DataDirectory;

/// How often to check.
const PERIOD: Duration = Duration::from_secs(10);

/// How many logs are rotated at the same time.
const AT_ONCE: usize = 8;

/// Rotates logs.
#[derive(Debug)]
pub struct LogRotation<R> {
    runtime: Arc<R>,
    cache: CacheReader,
    /// Only pods with a folder here are the agent's own.
    data: DataDirectory,
    /// Only logs below this folder are rotated.
    logs: PathBuf,
    policy: LogPolicy,
    /// The reader that must be able to read all of them.
    reader: Option<LogReader>,
}

/// A running container, in a pod that may be the agent's own.
struct Running {
    pod: PodUid,
    id: ContainerId,
    log: PathBuf,
}

impl<R: Runtime> LogRotation<R> {
    /// Rotates the logs below `logs`, for pods that have a folder below `data`.
    pub fn new(
        runtime: Arc<R>,
        cache: CacheReader,
        data: DataDirectory,
        logs: PathBuf,
        policy: LogPolicy,
    ) -> Self {
        Self { runtime, cache, data, logs, policy, reader: None }
    }

    /// Keeps the parts that this reader has yet to read.
    #[must_use]
    pub fn read_by(self, reader: Option<LogReader>) -> Self {
        Self { reader, ..self }
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.look().await;
        }
    }

    async fn look(&self) {
        let (policy, data) = (self.policy, self.data.clone());
        let running = self.running();
        // A single blocking task for all: there is hardly ever anything to do.
        let needy = off_thread(move || {
            let is_ours = |pod: &PodUid| data.pod(pod.as_str()).is_ok_and(|folder| folder.path().is_dir());
            let needs = running.into_iter().map(|container| (need(&container.log, policy), container));
            needs
                .filter(|(need, container)| *need != Need::Nothing && is_ours(&container.pod))
                .collect::<Vec<_>>()
        });
        // A runtime that hangs on one container holds up few others.
        let tend = async |(need, Running { id, log, .. })| match need {
            Need::Nothing => {}
            Need::Rotation => self.rotate(&id, log).await,
            Need::Reopening => self.reopen(&id, &log).await,
        };
        stream::iter(needy.await).for_each_concurrent(AT_ONCE, tend).await;
    }

    fn running(&self) -> Vec<Running> {
        let mut running = Vec::new();
        for (pod, status) in self.cache.all() {
            let Ok(status) = status else { continue };
            let all = status.containers.iter();
            for container in all.filter(|container| container.state == ContainerState::Running) {
                let log = PathBuf::from(&*container.log_path);
                if log.starts_with(&self.logs) {
                    running.push(Running { pod: pod.clone(), id: container.id.clone(), log });
                }
            }
        }
        running
    }

    async fn reopen(&self, id: &ContainerId, log: &Path) {
        tracing::info!(log = %log.display(), "a log is missing; asking the runtime to reopen it");
        if let Err(error) = self.runtime.reopen_log(id).await {
            tracing::warn!(log = %log.display(), %error, "the runtime failed to reopen a log");
        }
    }

    async fn rotate(&self, id: &ContainerId, log: PathBuf) {
        let (policy, path, reader) = (self.policy, log.clone(), self.reader.clone());
        let rotating = move || rotate(&path, policy, reader.as_ref(), crate::clock::now());
        let rotated = match off_thread(rotating).await {
            Ok(rotated) => rotated,
            Err(error) => {
                tracing::warn!(log = %log.display(), %error, "cannot rotate a log");
                return;
            }
        };
        if let Err(error) = self.runtime.reopen_log(id).await {
            tracing::warn!(log = %log.display(), %error, "the runtime failed to reopen a log; putting the rotated \
                                                          one back");
            let back = log.clone();
            if let Err(error) = off_thread(move || put_back(&rotated, &back)).await {
                tracing::error!(log = %log.display(), %error, "cannot put a rotated log back");
            }
        }
    }
}

#[cfg(test)]
mod tests;
