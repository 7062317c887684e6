//! The removal of what a runtime leaves behind when its daemon is gone. Its containers are meant to outlive the daemon,
//! so everything has to be searched for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::slot::Slot;
use crate::{Error, cgroup, config, mounts, network, processes};

/// Where shims of containerd 1.6 create their sockets, whatever the state folder is.
const SHIM_SOCKETS: &str = "/run/containerd/s";

/// A container or sandbox that was run by containerd.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) namespace: String,
    pub(crate) id: String,
}

/// Takes down a runtime whose daemon has ended. Nothing is deleted while a mount remains, since the deletion would
/// reach through it.
pub(crate) fn take_down(slot: &Slot) -> Result<(), Error> {
    let dir = slot.dir();
    processes::end_all_of(dir)?;
    let tasks = tasks(dir);
    for task in &tasks {
        remove_shim_socket(&bundles(dir).join(&task.namespace).join(&task.id));
    }
    mounts::detach_below(dir)?;
    cgroup::remove(&tasks);
    network::remove(slot)?;
    fs::remove_dir_all(dir).map_err(Error::io("remove", dir))
}

fn bundles(dir: &Path) -> PathBuf {
    config::state_dir(dir).join("io.containerd.runtime.v2.task")
}

/// Finds the tasks: containerd has a folder for each namespace, and in it one for each task.
fn tasks(dir: &Path) -> Vec<Task> {
    let mut tasks = Vec::new();
    for namespace in names_in(&bundles(dir)) {
        let ids = names_in(&bundles(dir).join(&namespace));
        tasks.extend(ids.into_iter().map(|id| Task { namespace: namespace.clone(), id }));
    }
    tasks
}

pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Removes the socket that a killed shim left. Containers of one pod share it, so it may be gone already.
fn remove_shim_socket(bundle: &Path) {
    let address = fs::read_to_string(bundle.join("address")).unwrap_or_default();
    if let Some(path) = address.trim().strip_prefix("unix://").map(Path::new)
        && path.parent() == Some(Path::new(SHIM_SOCKETS))
    {
        let _ = fs::remove_file(path);
    }
}
