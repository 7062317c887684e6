//! Removes what pods of a folder leave behind that were ended without an agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_agent::cgroup::{NoGroups, PodGroups};
use rubelet_agent::leavings::{Leavings, LeavingsError};
use rubelet_agent::volumes::{DataDirectory, Volumes};

use crate::last_agent::LastAgent;
use crate::log::remark;

/// How often it is tried: the first time somebody may just be leaving, the second time he is killed.
const ATTEMPTS: u32 = 5;
/// How long to wait until the next attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the pods of a folder leave things.
pub(crate) struct Cleaner {
    logs: PathBuf,
    volumes: Volumes,
    /// It remembers whose group could not be removed.
    groups: Option<PodGroups>,
}

impl Cleaner {
    /// For the pods that this agent of this folder had.
    pub(super) fn of(last: LastAgent, folder: &Path) -> Result<Self, NoGroups> {
        let groups = last.groups.map(|groups| PodGroups::open(&groups.settings())).transpose()?;
        Ok(Self { logs: last.pod_logs, volumes: Volumes::new(DataDirectory::new(folder)), groups })
    }

    /// Removes what a pod has left. An error, if something of it still runs; what else stays is for the next agent.
    pub(crate) async fn remove(&self, uid: &str) -> Result<(), LeavingsError> {
        let leavings = Leavings { groups: self.groups.as_ref(), logs: &self.logs, volumes: &self.volumes };
        let mut attempt = 1;
        loop {
            match leavings.remove(&uid.into()) {
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
}
