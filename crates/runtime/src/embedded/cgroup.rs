//! Control groups, v1 and v2: finding them, killing everything in one, removing it, and reading its usage.
//!
//! Limits are set by the container library when it creates the group, and by [`limits`] when they change later.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::mountinfo::{self, Mount};

/// The control group hierarchies of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// One hierarchy for all controllers.
    V2(PathBuf),
    /// One hierarchy for each controller, or for several controllers together.
    V1(Vec<Hierarchy>),
    /// No hierarchy that we can use.
    None,
}

/// One v1 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    controllers: Vec<String>,
    mount: PathBuf,
}

/// What a group has used. A value is absent if the machine does not account for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) cpu_nanos: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) working_set_bytes: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) page_faults: Option<u64>,
    pub(crate) major_page_faults: Option<u64>,
    pub(crate) memory_limit_bytes: Option<u64>,
    pub(crate) swap_bytes: Option<u64>,
    pub(crate) processes: Option<u64>,
}

impl Cgroups {
    /// Reads the hierarchies from the mount table.
    pub(crate) fn detect() -> Self {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::from_mounts(&mountinfo::parse(&text))
    }

    /// Finds the hierarchies in a mount table. v2 is used only if it is all of `/sys/fs/cgroup`: beside v1, it has no
    /// controllers to offer.
    pub(crate) fn from_mounts(mounts: &[Mount]) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        if let Some(unified) = mounts.iter().find(|mount| mount.fs == "cgroup2" && mount.point == root) {
            return Self::V2(unified.point.clone());
        }
        const KNOWN: [&str; 12] = [
            "cpu",
            "cpuacct",
            "cpuset",
            "memory",
            "devices",
            "freezer",
            "blkio",
            "pids",
            "hugetlb",
            "perf_event",
            "net_cls",
            "net_prio",
        ];
        let mut seen = BTreeSet::new();
        let hierarchies: Vec<Hierarchy> = mounts
            .iter()
            .filter(|mount| mount.fs == "cgroup" && mount.point.starts_with(root))
            .filter(|mount| seen.insert(mount.point.clone()))
            .map(|mount| Hierarchy {
                controllers: mount
                    .options
                    .split(',')
                    .filter(|word| KNOWN.contains(word))
                    .map(str::to_owned)
                    .collect(),
                mount: mount.point.clone(),
            })
            .filter(|hierarchy| !hierarchy.controllers.is_empty())
            .collect();
        if hierarchies.is_empty() { Self::None } else { Self::V1(hierarchies) }
    }

    /// Returns the folder of a group in the hierarchy of one controller.
    pub(crate) fn folder(&self, controller: &str, group: &str) -> Option<PathBuf> {
        if group.is_empty() {
            return None;
        }
        let below = group.trim_start_matches('/');
        match self {
            Self::V2(mount) => Some(mount.join(below)),
            Self::V1(hierarchies) => hierarchies
                .iter()
                .find(|hierarchy| hierarchy.controllers.iter().any(|known| known == controller))
                .map(|hierarchy| hierarchy.mount.join(below)),
            Self::None => None,
        }
    }

    /// Returns the folders of a group in all hierarchies, whether or not they exist.
    pub(crate) fn folders(&self, group: &str) -> Vec<PathBuf> {
        if group.trim_matches('/').is_empty() {
            return Vec::new();
        }
        let below = group.trim_start_matches('/');
        match self {
            Self::V2(mount) => vec![mount.join(below)],
            Self::V1(hierarchies) => {
                hierarchies.iter().map(|hierarchy| hierarchy.mount.join(below)).collect()
            }
            Self::None => Vec::new(),
        }
    }

    /// Returns a group's v1 folders, each under every name that its hierarchy has where all are mounted side by side.
    pub(crate) fn named_folders(&self, group: &str) -> Vec<(String, PathBuf)> {
        let Self::V1(hierarchies) = self else { return Vec::new() };
        let below = group.trim_start_matches('/');
        let mut named = Vec::new();
        for Hierarchy { controllers, mount } in hierarchies {
            let own = mount.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let others = controllers.iter().filter(|name| **name != own).cloned();
            named.extend(others.chain([own.clone()]).map(|name| (name, mount.join(below))));
        }
        named
    }

    /// Whether the group exists anywhere.
    pub(crate) fn exists(&self, group: &str) -> bool {
        self.folders(group).iter().any(|folder| folder.exists())
    }

    /// Returns every process in a group and below.
    pub(crate) fn processes(&self, group: &str) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for folder in self.folders(group) {
            collect_processes(&folder, &mut found);
        }
        found
    }

    /// Kills every process in a group, even one that forks faster than it can be counted.
    pub(crate) fn kill(&self, group: &str) {
        if group.trim_matches('/').is_empty() {
            return;
        }
        if let Self::V2(_) = self {
            let killed =
                self.folders(group).iter().all(|folder| fs::write(folder.join("cgroup.kill"), "1").is_ok());
            if killed {
                return;
            }
        }
        // Frozen processes cannot fork; a fatal signal reaches them once they thaw.
        let freezer = self.folder("freezer", group).map(|folder| folder.join("freezer.state"));
        if let Some(freezer) = &freezer {
            let _ = fs::write(freezer, "FROZEN");
        }
        for pid in self.processes(group) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if let Some(freezer) = &freezer {
            let _ = fs::write(freezer, "THAWED");
        }
    }

    /// Opens the folder of a group, for a process to be created in it. Only v2 supports this.
    pub(crate) fn to_be_born_in(&self, group: &str) -> Option<fs::File> {
        match self {
            Self::V2(_) => fs::File::open(self.folders(group).first()?).ok(),
            Self::V1(_) | Self::None => None,
        }
    }

    /// Moves this process, which must have one thread, into the group of a container. If the container has created
    /// groups inside, the kernel allows no process in the outer one: then this joins the group of the container's first
    /// process, `init`.
    pub(crate) fn join(&self, group: &str, init: i32) -> std::io::Result<()> {
        let file = match self {
            // Moving only the calling thread blocks nobody; moving a process, even with one thread, stops the machine.
            Self::V1(_) => "tasks",
            Self::V2(_) | Self::None => "cgroup.procs",
        };
        for folder in self.folders(group) {
            match fs::write(folder.join(file), "0") {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    let groups = fs::read_to_string(format!("/proc/{init}/cgroup"))?;
                    let inner = group_below(&groups, group).ok_or(error)?;
                    for folder in self.folders(inner) {
                        fs::write(folder.join(file), "0")?;
                    }
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Whether a group cannot be created because the groups above it have no memory left.
    pub(crate) fn lacks_memory_for(&self, group: &str) -> bool {
        let made = self.folder("memory", group).map(fs::create_dir);
        made.is_some_and(|made| made.is_err_and(|error| error.kind() == std::io::ErrorKind::OutOfMemory))
    }

    /// Removes a group and the groups below it. Returns true if nothing of it is left.
    pub(crate) fn remove(&self, group: &str) -> bool {
        // Every folder is tried, even if others fail.
        let left: Vec<_> = self.folders(group).into_iter().filter(|folder| !remove_tree(folder)).collect();
        left.is_empty()
    }

    /// Removes an empty group that has no groups below it; leaves any other as it is.
    pub(crate) fn remove_empty(&self, group: &str) {
        for folder in self.folders(group) {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Returns how many processes of the group were killed by the kernel because memory ran out.
    pub(crate) fn oom_kills(&self, group: &str) -> u64 {
        let file = match self {
            Self::V2(_) => "memory.events",
            Self::V1(_) | Self::None => "memory.oom_control",
        };
        let Some(folder) = self.folder("memory", group) else { return 0 };
        fs::read_to_string(folder.join(file)).ok().and_then(|text| keyed(&text, "oom_kill")).unwrap_or(0)
    }

    /// Reads what a group has used.
    pub(crate) fn usage(&self, group: &str) -> Usage {
        let text = |controller: &str, file: &str| -> Option<String> {
            fs::read_to_string(self.folder(controller, group)?.join(file)).ok()
        };
        let number =
            |controller: &str, file: &str| -> Option<u64> { text(controller, file)?.trim().parse().ok() };
        let mut usage = Usage { processes: number("pids", "pids.current"), ..Usage::default() };
        match self {
            Self::None => {}
            Self::V2(_) => {
                usage.cpu_nanos =
                    text("cpu", "cpu.stat").and_then(|text| Some(keyed(&text, "usage_usec")? * 1000));
                usage.memory_bytes = number("memory", "memory.current");
                usage.memory_limit_bytes = number("memory", "memory.max");
                usage.swap_bytes = number("memory", "memory.swap.current");
                if let Some(stat) = text("memory", "memory.stat") {
                    usage.rss_bytes = keyed(&stat, "anon");
                    usage.page_faults = keyed(&stat, "pgfault");
                    usage.major_page_faults = keyed(&stat, "pgmajfault");
                    usage.working_set_bytes = working_set(usage.memory_bytes, keyed(&stat, "inactive_file"));
                }
            }
            Self::V1(_) => {
                usage.cpu_nanos = number("cpuacct", "cpuacct.usage");
                usage.memory_bytes = number("memory", "memory.usage_in_bytes");
                // v1 writes "no limit" as the largest whole number of pages.
                usage.memory_limit_bytes =
                    number("memory", "memory.limit_in_bytes").filter(|limit| *limit < 1 << 62);
                if let Some(stat) = text("memory", "memory.stat") {
                    usage.rss_bytes = keyed(&stat, "total_rss");
                    usage.page_faults = keyed(&stat, "total_pgfault");
                    usage.major_page_faults = keyed(&stat, "total_pgmajfault");
                    usage.swap_bytes = keyed(&stat, "total_swap");
                    usage.working_set_bytes =
                        working_set(usage.memory_bytes, keyed(&stat, "total_inactive_file"));
                }
            }
        }
        usage
    }
}

/// Finds the group of a process in the unified hierarchy, from its `/proc/PID/cgroup`, if that lies below `group`.
fn group_below<'a>(text: &'a str, group: &str) -> Option<&'a str> {
    let own = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = own.trim_matches('/').strip_prefix(group.trim_matches('/'))?;
    below.starts_with('/').then_some(own)
}

fn working_set(usage: Option<u64>, inactive_file: Option<u64>) -> Option<u64> {
    Some(usage?.saturating_sub(inactive_file.unwrap_or(0)))
}

/// Returns the number after a word, in lines of `word number`.
fn keyed(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == word).then(|| value.trim().parse().ok())?
    })
}

fn collect_processes(folder: &Path, found: &mut BTreeSet<i32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for child in subgroups(folder) {
        collect_processes(&child, found);
    }
}

fn subgroups(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_tree(folder: &Path) -> bool {
    for child in subgroups(folder) {
        remove_tree(&child);
    }
    match fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(table: &str) -> Cgroups {
        Cgroups::from_mounts(&mountinfo::parse(table))
    }

    #[test]
    fn a_command_goes_where_the_first_process_went() {
        let table = [
            ("0::/kubepods/pod1/c/init.scope\n", Some("/kubepods/pod1/c/init.scope")),
            ("1:cpu:/x\n0::/kubepods/pod1/c/a/b\n", Some("/kubepods/pod1/c/a/b")),
            ("0::/kubepods/pod1/c\n", None),
            ("0::/kubepods/pod1/cc/a\n", None),
            ("0::/elsewhere\n", None),
            ("1:cpu:/kubepods/pod1/c/a\n", None),
        ];
        for (text, wanted) in table {
            assert_eq!(group_below(text, "/kubepods/pod1/c"), wanted, "{text}");
        }
    }

    #[test]
    fn v2_is_found_where_it_is_everything() {
        let cgroups = detect("1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(cgroups.folder("cpu", "/pod/c"), Some(PathBuf::from("/sys/fs/cgroup/pod/c")));
        assert_eq!(cgroups.folders("/pod/c").len(), 1);
    }

    #[test]
    fn v1_has_a_folder_for_each_hierarchy_and_ignores_named_ones() {
        let cgroups = detect(
            "1 2 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             3 1 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             4 1 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             5 1 0:4 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             6 1 0:5 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        assert_eq!(cgroups.folder("cpuacct", "/p"), Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/p")));
        assert_eq!(cgroups.folder("pids", "/p"), None);
        assert_eq!(cgroups.folders("/p").len(), 2);
        assert!(cgroups.folders("/").is_empty(), "the root group is nobody's to empty");
    }

    #[test]
    fn no_cgroups_at_all() {
        assert_eq!(detect(""), Cgroups::None);
        assert_eq!(detect("").usage("/x"), Usage::default());
    }

    #[test]
    fn keyed_lines() {
        assert_eq!(keyed("low 0\noom_kill 3\noom 1\n", "oom_kill"), Some(3));
        assert_eq!(keyed("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"), None);
    }
}
