//! Removes what is left of a folder's pods that were stopped without an agent.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rubelet_agent::cgroup::{NoGroups, PodGroups};
use rubelet_agent::leavings::{Leavings, LeavingsError};
use rubelet_agent::volumes::{DataDirectory, Volumes};
use rubelet_model::PodUid;

use crate::last_agent::LastAgent;
use crate::log::remark;

/// How many times to try: at the first attempt a process may still be exiting, by the second it has been killed.
const ATTEMPTS: u32 = 5;
/// The time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Removes what is left of the pods of a folder.
pub(crate) struct Cleaner(Arc<Places>);

/// The places to clean up.
struct Places {
    logs: PathBuf,
    volumes: Volumes,
    /// It remembers the pods whose group could not be removed.
    groups: Option<PodGroups>,
}

impl Cleaner {
    /// Creates a cleaner for the pods of this folder's last agent.
    pub(super) fn of(last: LastAgent, folder: &Path) -> Result<Self, NoGroups> {
        let groups = last.groups.map(|groups| PodGroups::open(&groups.settings())).transpose()?;
        let volumes = Volumes::new(DataDirectory::new(folder));
        Ok(Self(Arc::new(Places { logs: last.pod_logs, volumes, groups })))
    }

    /// Removes what is left of a pod. Fails if something of the pod still runs; anything else that cannot be removed is
    /// left to the next agent.
    pub(crate) async fn remove(&self, uid: &str) -> Result<(), LeavingsError> {
        let mut attempt = 1;
        loop {
            match self.try_to_remove(uid).await {
                Ok(()) => return Ok(()),
                Err(_) if attempt < ATTEMPTS => {}
                Err(error) if error.is_of_who_runs() => return Err(error),
                Err(error) => {
                    remark(format_args!(
                        "cannot clean up after pod {uid}: {error}; the next agent will try again"
                    ));
                    return Ok(());
                }
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Works on a blocking thread: a command has only one async thread, and other pods are stopped on it as well.
    async fn try_to_remove(&self, uid: &str) -> Result<(), LeavingsError> {
        let (places, uid) = (self.0.clone(), PodUid::from(uid));
        let remove = move || {
            let Places { logs, volumes, groups } = &*places;
            Leavings { groups: groups.as_ref(), logs, volumes }.remove(&uid)
        };
        match tokio::task::spawn_blocking(remove).await {
            Ok(result) => result,
            // The task is never aborted, so it panicked.
            Err(error) => resume_unwind(error.into_panic()),
        }
    }
}
