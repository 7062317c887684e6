//! Keeps the logs of running containers within bounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pleg::CacheReader;
use rubelet_model::{ContainerId, ContainerState};
use tokio::time::MissedTickBehavior;

use super::log_files::{is_due, put_back, rotate};
use super::log_plan::LogPolicy;
use crate::runtime::Runtime;

/// How often to look.
const PERIOD: Duration = Duration::from_secs(10);

/// Rotates logs.
#[derive(Debug)]
pub struct LogRotation<R> {
    runtime: Arc<R>,
    cache: CacheReader,
    /// Logs elsewhere are none of ours.
    logs: PathBuf,
    policy: LogPolicy,
}

impl<R: Runtime> LogRotation<R> {
    /// Rotates the logs below `logs`.
    pub fn new(runtime: Arc<R>, cache: CacheReader, logs: PathBuf, policy: LogPolicy) -> Self {
        Self { runtime, cache, logs, policy }
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
        let policy = self.policy;
        let running = self.running();
        // One trip to the disk for all: hardly ever is one of them due.
        let due = tokio::task::spawn_blocking(move || {
            running.into_iter().filter(|(_, log)| is_due(log, policy)).collect::<Vec<_>>()
        });
        for (id, log) in due.await.unwrap_or_default() {
            self.rotate(&id, log).await;
        }
    }

    fn running(&self) -> Vec<(ContainerId, PathBuf)> {
        let mut running = Vec::new();
        for status in self.cache.all().into_iter().filter_map(|(_, status)| status.ok()) {
            let all = status.containers.iter();
            for container in all.filter(|container| container.state == ContainerState::Running) {
                let log = PathBuf::from(&*container.log_path);
                if log.starts_with(&self.logs) {
                    running.push((container.id.clone(), log));
                }
            }
        }
        running
    }

    async fn rotate(&self, id: &ContainerId, log: PathBuf) {
        let policy = self.policy;
        let path = log.clone();
        let rotated = tokio::task::spawn_blocking(move || {
            let now = Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0)).unwrap_or_default();
            rotate(&path, policy, now)
        });
        let rotated = match rotated.await {
            Ok(Ok(rotated)) => rotated,
            Ok(Err(error)) => {
                tracing::warn!(log = %log.display(), %error, "cannot rotate a log");
                return;
            }
            Err(panicked) => {
                tracing::error!(log = %log.display(), %panicked, "rotating a log failed");
                return;
            }
        };
        if let Err(error) = self.runtime.reopen_log(id).await {
            tracing::warn!(log = %log.display(), %error, "the runtime does not open a log anew; it is put back");
            let back = log.clone();
            let put_back = tokio::task::spawn_blocking(move || put_back(&rotated, &back)).await;
            if !matches!(put_back, Ok(Ok(()))) {
                tracing::error!(log = %log.display(), "a log that was moved away could not be put back");
            }
        }
    }
}
