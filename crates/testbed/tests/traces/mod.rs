//! What a runtime leaves on a machine, found without the library's own eyes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Places where a runtime shows, taken while it lives.
#[derive(Debug)]
pub(crate) struct Traces {
    folder: String,
    bridge: String,
    tasks: BTreeSet<String>,
}

impl Traces {
    /// Call it when the containers run.
    pub(crate) fn of(folder: &Path, bridge: &str) -> Self {
        let bundles = folder.join("state/io.containerd.runtime.v2.task/k8s.io");
        let tasks = names(&bundles).into_iter().collect();
        Self { folder: folder.display().to_string(), bridge: bridge.to_owned(), tasks }
    }

    /// How many containers and sandboxes were running.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Everything that is there now, one line each.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        if Path::new(&self.folder).exists() {
            left.push(self.folder.clone());
        }
        if Path::new("/sys/class/net").join(&self.bridge).exists() {
            left.push(format!("bridge {}", self.bridge));
        }
        let below = format!("{}/", self.folder);
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("a mount table");
        left.extend(
            mounts.lines().filter(|mount| mount.contains(&below)).map(|mount| format!("mount {mount}")),
        );
        for pid in names(Path::new("/proc")).iter().filter_map(|name| name.parse::<u32>().ok()) {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            let is_container = !command.is_empty() && self.tasks.iter().any(|task| cgroup.contains(task));
            if is_container || command.contains(&below) {
                left.push(format!("process {pid} {command}"));
            }
        }
        for place in
            ["/sys/fs/cgroup/cpu/k8s.io", "/sys/fs/cgroup/k8s.io", "/var/lib/cni/results", "/run/netns"]
        {
            let own = names(Path::new(place)).into_iter().filter(|name| self.names_task(name));
            left.extend(own.map(|name| format!("{place}/{name}")));
        }
        left
    }

    fn names_task(&self, name: &str) -> bool {
        self.tasks.iter().any(|task| name.contains(task))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
