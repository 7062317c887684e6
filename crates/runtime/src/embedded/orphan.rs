//! Containers whose shim was killed, where there are no control groups. Such a container is found by its first process;
//! when that ends, so do all others of its process namespace.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::cgroup::Cgroups;
use super::identity::Identity;
use super::runtime::{Runtime, blocking};
use super::store::{self, Durability};

/// The file in the container's folder that identifies its first process; only where there are no control groups.
const PROCESS: &str = "process.json";
/// How long a killed process may take to end.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

impl Runtime {
    /// Records which process is a container's first.
    pub(crate) async fn remember_process(&self, id: &str, pid: i32) {
        if self.facts.cgroups != Cgroups::None {
            return;
        }
        let path = self.layout.container(id).join(PROCESS);
        let written = blocking(move || match Identity::of(pid) {
            Some(process) => store::write_json(&path, &process, Durability::Process),
            None => Ok(()),
        });
        if let Err(error) = written.await {
            tracing::warn!(container = id, %error, "cannot record a container's process, which would therefore \
                                                    outlive a killed shim");
        }
    }

    /// Kills a container that nobody watches any more.
    pub(crate) async fn end_orphan(&self, id: &str) {
        if self.facts.cgroups != Cgroups::None {
            return;
        }
        let path = self.layout.container(id).join(PROCESS);
        let ended = blocking(move || {
            let Some(process) = store::read_json::<Identity>(&path)? else { return Ok(()) };
            if let Some(handle) = process.open() {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
                let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&PATIENCE));
            }
            Ok(())
        });
        if let Err(error) = ended.await {
            tracing::error!(container = id, %error, "cannot identify the container's process");
        }
    }
}
