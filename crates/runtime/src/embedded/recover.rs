//! Recovery after a restart: reads what is on disk, asks the shims, and removes what is incomplete.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rubelet_cri::v1;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::error::{Error, Result};
use super::id;
use super::record::{ContainerRecord, SandboxRecord};
use super::registry::{Container, Sandbox};
use super::runtime::Runtime;
use super::shim::protocol::Report;
use super::state::{ContainerState, Exit};
use super::store;
use super::supervise;

/// How long the first call may wait for the shims' reports.
const SHIM_PATIENCE: Duration = Duration::from_secs(5);

/// What the state of a container on disk means after a restart.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Never started.
    Created,
    /// Its end has been recorded.
    Ended(Exit),
    /// Its shim is alive, and has to be asked.
    Ask,
    /// It was started, no end has been recorded, and there is no shim to ask.
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
    /// Loads everything back into memory. Must be called before the first call is served.
    ///
    /// # Errors
    /// If it cannot be determined whether some object exists. Serving without that object would free its name for a
    /// second one, and let its image be removed while in use.
    pub(crate) async fn recover(self: &Arc<Self>) -> Result<()> {
        let mounted = mount_points()?;
        for id in store::entries(&self.layout.sandboxes())?.into_iter().filter(|name| id::is_id(name)) {
            let recovered = self.recover_sandbox(&id, &mounted).await;
            recovered.map_err(|error| not_known("sandbox", &self.layout.sandbox(&id), &error))?;
        }
        let mut asked = JoinSet::new();
        for id in store::entries(&self.layout.containers())?.into_iter().filter(|name| id::is_id(name)) {
            let recovered = self.recover_container(&id, &mut asked).await;
            recovered.map_err(|error| not_known("container", &self.layout.container(&id), &error))?;
        }
        self.release_leases();
        // A shim answers at once. One that does not must not delay the pods of the others.
        let all = async { while asked.join_next().await.is_some() {} };
        if tokio::time::timeout(SHIM_PATIENCE, all).await.is_err() {
            tracing::warn!(
                silent = asked.len(),
                "some shims do not answer; the state of their containers is not known yet"
            );
        }
        asked.detach_all();
        Ok(())
    }

    async fn recover_sandbox(self: &Arc<Self>, id: &str, mounted: &HashSet<PathBuf>) -> Result<()> {
        let folder = self.layout.sandbox(id);
        let record = whole::<SandboxRecord>(&folder.join(store::RECORD_SANDBOX))?;
        let config = store::read(&folder.join(store::REQUEST))?
            .and_then(|bytes| v1::PodSandboxConfig::decode(bytes.as_slice()).ok());
        let (Some(record), Some(config)) = (record, config) else {
            tracing::info!(sandbox = id, "removing an incomplete sandbox");
            if let Err(error) = self.discard_sandbox(id).await {
                tracing::error!(sandbox = id, %error, "cannot remove an incomplete sandbox; the next start will try \
                                                       again");
            }
            return Ok(());
        };
        let sandbox = Sandbox::new(record, config);
        self.take_name(&sandbox.name(), id);
        self.registry.add_sandbox(Arc::clone(&sandbox));
        // A reboot removes the mounts that held its namespaces, and with them the sandbox.
        if !self.namespaces_are_held(&sandbox, mounted)
            && let Err(error) = self.mark_not_ready(&sandbox).await
        {
            tracing::warn!(sandbox = id, %error, "cannot record that a sandbox is not ready");
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
        let record = whole::<ContainerRecord>(&folder.join(store::RECORD_CONTAINER))?;
        let config = store::read(&folder.join(store::REQUEST))?
            .and_then(|bytes| v1::ContainerConfig::decode(bytes.as_slice()).ok());
        let (Some(record), Some(config)) = (record, config) else {
            tracing::info!(container = id, "removing an incomplete container");
            self.try_discard(id);
            return Ok(());
        };
        let Ok(sandbox) = self.registry.sandbox(&record.sandbox) else {
            tracing::warn!(
                container = id,
                sandbox = record.sandbox,
                "removing a container without a sandbox"
            );
            self.end_group(&record.cgroup).await;
            self.try_discard(id);
            return Ok(());
        };
        let mut link = supervise::connect(&folder)?;
        // The exit record is read after the connection attempt: a shim that has just ended has written it by then.
        let end = whole::<Exit>(&folder.join(store::EXIT))?;
        let verdict = judge(end, supervise::was_started(&folder), link.is_some());
        let state = match &verdict {
            Verdict::Created => ContainerState::Created,
            Verdict::Ended(exit) => ContainerState::Exited(exit.clone()),
            Verdict::Ask | Verdict::Lost => ContainerState::Starting,
        };
        let container = Container::new(record, config, state, self.room.of_one(self.facts.open_files));
        self.take_name(&container.name(&sandbox), id);
        self.registry.add_container(Arc::clone(&container));
        match verdict {
            Verdict::Created => {}
            Verdict::Ended(_) => {
                // Its shim may have been killed after it wrote the record and before it cleaned up.
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

    /// Reserves a name. What exists is shown even if another object has its name, so that it can be removed.
    fn take_name(&self, name: &str, id: &str) {
        if let Err(error) = self.registry.reserve(name, id) {
            tracing::error!(id, %error, "two have the same name; remove one of them");
        }
    }

    fn try_discard(&self, id: &str) {
        if let Err(error) = self.discard_container(id) {
            tracing::error!(container = id, %error, "cannot clean up a container; the next start will try again");
        }
    }

    /// Follows a live shim: it reports its state, now or once it has finished starting.
    async fn resume(self: &Arc<Self>, container: Arc<Container>, mut link: supervise::Link) {
        match supervise::next(&mut link).await {
            Some(Report::Started { pid, at }) => {
                self.remember_process(container.id(), pid).await;
                container.state.send_replace(ContainerState::Running { pid, started_at: at });
                self.watch(container, link);
            }
            ended => self.finish(&container, ended.and_then(Report::into_end)).await,
        }
    }

    /// Releases the images that are kept for containers that no longer exist.
    fn release_leases(&self) {
        let leases = match self.images.leases() {
            Ok(leases) => leases,
            Err(error) => {
                tracing::warn!(%error, "cannot read which images are in use");
                return;
            }
        };
        for lease in leases.iter().filter(|lease| id::is_id(&lease.key)) {
            if matches!(self.layout.container(&lease.key).try_exists(), Ok(false))
                && let Err(error) = self.images.release(&lease.key)
            {
                tracing::warn!(%error, key = lease.key, "cannot release an image");
            }
        }
    }
}

/// Returns all mount points. The table grows with the node's pods, so it is read once for all of them.
fn mount_points() -> Result<HashSet<PathBuf>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    Ok(super::mountinfo::parse(&text).into_iter().map(|mount| mount.point).collect())
}

/// Reads a record; `None` if there is none, or if a power failure has truncated it, in which case nothing of it runs.
/// Any other reason why it cannot be read is an error.
fn whole<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match store::read_json(path) {
        Err(Error::Io { source, .. }) if is_torn(&source) => Ok(None),
        other => other,
    }
}

/// Whether the file is incomplete JSON. Complete JSON of another shape was written by another version.
fn is_torn(error: &std::io::Error) -> bool {
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<serde_json::Error>());
    error.is_some_and(|error| error.is_syntax() || error.is_eof())
}

fn not_known(kind: &str, folder: &Path, error: &Error) -> Error {
    Error::State(format!(
        "cannot determine the state of the {kind} in {}: {error}. The runtime does not start, so that no second one \
         is created beside it. Fix the cause and start again; or give the {kind} up: stop what runs in it and remove \
         that folder",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_is_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        assert_eq!(whole::<Vec<u8>>(&path).unwrap(), None, "never written");
        for torn in ["", "[1,", "\0\0\0\0"] {
            std::fs::write(&path, torn).unwrap();
            assert_eq!(whole::<Vec<u8>>(&path).unwrap(), None, "{torn:?}");
        }
        std::fs::write(&path, "{}").unwrap();
        assert!(whole::<Vec<u8>>(&path).is_err(), "of another version");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("r.json", &path).unwrap();
        assert!(whole::<Vec<u8>>(&path).is_err());
    }

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
