//! After a restart: what is on disk, what the shims say, and nothing half-made.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rubelet_cri::v1;
use tokio::task::JoinSet;

use super::error::Result;
use super::id;
use super::record::{ContainerRecord, SandboxRecord};
use super::registry::{Container, Sandbox};
use super::runtime::Runtime;
use super::shim::protocol::Report;
use super::state::{ContainerState, Exit};
use super::store;
use super::supervise;

/// How long the first call may wait for shims to say what they have.
const SHIM_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a container after a restart, and what it means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Never started.
    Created,
    /// Its end is recorded.
    Ended(Exit),
    /// Its shim lives: ask it.
    Ask,
    /// It was started, nothing is recorded, and nobody lives who could tell.
    Lost,
}

fn judge(end: Option<Exit>, was_started: bool, shim_lives: bool) -> Verdict {
    match (end, was_started, shim_lives) {
        (Some(exit), _, _) => Verdict::Ended(exit),
        (None, _, true) => Verdict::Ask,
        (None, true, false) => Verdict::Lost,
        (None, false, false) => Verdict::Created,
    }
}

impl Runtime {
    /// Brings everything back into memory. To be done before the first call is served.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<()> {
        let mounted = mount_points();
        for id in store::entries(&self.layout.sandboxes())?.into_iter().filter(|name| id::is_id(name)) {
            if let Err(error) = self.recover_sandbox(&id, &mounted).await {
                tracing::error!(sandbox = id, %error, "cannot recover a sandbox");
            }
        }
        let mut asked = JoinSet::new();
        for id in store::entries(&self.layout.containers())?.into_iter().filter(|name| id::is_id(name)) {
            if let Err(error) = self.recover_container(&id, &mut asked).await {
                tracing::error!(container = id, %error, "cannot recover a container");
            }
        }
        self.release_leases();
        // A shim answers at once. One that does not must not keep the others' pods from being served.
        let all = async { while asked.join_next().await.is_some() {} };
        if tokio::time::timeout(SHIM_PATIENCE, all).await.is_err() {
            tracing::warn!(
                silent = asked.len(),
                "some shims do not answer: their containers' state is not known yet"
            );
        }
        asked.detach_all();
        Ok(())
    }

    async fn recover_sandbox(self: &Arc<Self>, id: &str, mounted: &HashSet<PathBuf>) -> Result<()> {
        let folder = self.layout.sandbox(id);
        let record =
            store::read_json::<SandboxRecord>(&folder.join(store::RECORD_SANDBOX)).unwrap_or_default();
        let config = store::read(&folder.join(store::REQUEST))?
            .and_then(|bytes| v1::PodSandboxConfig::decode(bytes.as_slice()).ok());
        let (Some(record), Some(config)) = (record, config) else {
            tracing::info!(sandbox = id, "removing a half-made sandbox");
            return self.discard_sandbox(id).await;
        };
        let sandbox = Sandbox::new(record, config);
        self.registry.reserve(&sandbox.name(), id)?;
        self.registry.add_sandbox(Arc::clone(&sandbox));
        // After a reboot the mounts that held its namespaces are gone, and with them the sandbox.
        if !self.namespaces_are_held(&sandbox, mounted) {
            self.mark_not_ready(&sandbox).await?;
        }
        self.watch_pause(&sandbox);
        Ok(())
    }

    fn namespaces_are_held(&self, sandbox: &Sandbox, mounted: &HashSet<PathBuf>) -> bool {
        let held = sandbox.record.read().held;
        let ns = self.layout.sandbox(&sandbox.id).join(super::namespaces::NS);
        let kinds = [(held.network, "net"), (held.ipc, "ipc"), (held.uts, "uts")];
        kinds.iter().filter(|kind| kind.0).all(|kind| mounted.contains(&ns.join(kind.1)))
    }

    async fn recover_container(self: &Arc<Self>, id: &str, asked: &mut JoinSet<()>) -> Result<()> {
        let folder = self.layout.container(id);
        let record =
            store::read_json::<ContainerRecord>(&folder.join(store::RECORD_CONTAINER)).unwrap_or_default();
        let config = store::read(&folder.join(store::REQUEST))?
            .and_then(|bytes| v1::ContainerConfig::decode(bytes.as_slice()).ok());
        let (Some(record), Some(config)) = (record, config) else {
            tracing::info!(container = id, "removing a half-made or half-removed container");
            return self.discard_container(id);
        };
        let Ok(sandbox) = self.registry.sandbox(&record.sandbox) else {
            tracing::warn!(
                container = id,
                sandbox = record.sandbox,
                "removing a container without a sandbox"
            );
            self.end_group(&record.cgroup).await;
            return self.discard_container(id);
        };
        let end = || store::read_json::<Exit>(&folder.join(store::EXIT)).unwrap_or_default();
        let mut link = supervise::connect(&folder)?;
        // The end is read after the attempt to connect: a shim that has just gone has written it by then.
        let verdict = judge(end(), supervise::was_started(&folder), link.is_some());
        let state = match &verdict {
            Verdict::Created => ContainerState::Created,
            Verdict::Ended(exit) => ContainerState::Exited(exit.clone()),
            Verdict::Ask | Verdict::Lost => ContainerState::Starting,
        };
        let container = Container::new(record, config, state);
        self.registry.reserve(&container.name(&sandbox), id)?;
        self.registry.add_container(Arc::clone(&container));
        match verdict {
            Verdict::Created => {}
            Verdict::Ended(_) => {
                // Its shim may have been killed between the record and the tidying up.
                drop(link.take());
                self.end_group(&container.record.cgroup).await;
            }
            Verdict::Lost => self.finish(&container, None).await,
            Verdict::Ask => {
                if let Some(link) = link.take() {
                    let (runtime, link) = (Arc::clone(self), supervise::adopt(link)?);
                    asked.spawn(async move { runtime.resume(container, link).await });
                }
            }
        }
        Ok(())
    }

    /// A shim lives: it says what it has, now or when it is done starting.
    async fn resume(self: &Arc<Self>, container: Arc<Container>, mut link: supervise::Link) {
        match supervise::next(&mut link).await {
            Some(Report::Started { pid, at }) => {
                container.state.send_replace(ContainerState::Running { pid, started_at: at });
                self.watch(container, link);
            }
            ended => self.finish(&container, ended.and_then(Report::into_end)).await,
        }
    }

    /// Lets go of images that are kept for containers that are no more.
    fn release_leases(&self) {
        let leases = match self.images.leases() {
            Ok(leases) => leases,
            Err(error) => {
                tracing::warn!(%error, "cannot read who uses which image");
                return;
            }
        };
        for lease in leases.iter().filter(|lease| id::is_id(&lease.key)) {
            if self.registry.container(&lease.key).is_err()
                && let Err(error) = self.images.release(&lease.key)
            {
                tracing::warn!(%error, key = lease.key, "cannot let go of an image");
            }
        }
    }
}

/// Where something is mounted. The table is as long as the node has pods: it is read once for all of them.
fn mount_points() -> HashSet<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    super::mountinfo::parse(&text).into_iter().map(|mount| mount.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_has_one_meaning() {
        let exit = Exit::lost(1, 2);
        for started in [false, true] {
            for lives in [false, true] {
                assert_eq!(judge(Some(exit.clone()), started, lives), Verdict::Ended(exit.clone()));
            }
        }
        assert_eq!(judge(None, false, false), Verdict::Created);
        assert_eq!(judge(None, true, false), Verdict::Lost);
        assert_eq!(judge(None, true, true), Verdict::Ask);
    }
}
