//! Removes what pods of a folder leave behind that were ended without an agent.

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

/// How often it is tried: the first time somebody may just be leaving, the second time he is killed.
const ATTEMPTS: u32 = 5;
/// How long to wait until the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Removes what the pods of a folder leave.
pub(crate) struct Cleaner(Arc<Places>);

/// Where they leave it.
struct Places {
    logs: PathBuf,
    volumes: Volumes,
    /// It remembers whose group could not be removed.
    groups: Option<PodGroups>,
}

impl Cleaner {
    /// For the pods that this agent of this folder had.
    pub(super) fn of(last: LastAgent, folder: &Path) -> Result<Self, NoGroups> {
        let groups = last.groups.map(|groups| PodGroups::open(&groups.settings())).transpose()?;
        let volumes = Volumes::new(DataDirectory::new(folder));
        Ok(Self(Arc::new(Places { logs: last.pod_logs, volumes, groups })))
    }

    /// Removes what a pod has left. An error, if something of it still runs; what else stays is for the next agent.
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

    /// Works off the async thread: a command has only one, and other pods end on it, too.
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
