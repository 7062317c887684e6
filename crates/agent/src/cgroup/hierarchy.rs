//! The cgroups of a machine, as folders: v1 has one hierarchy per controller, v2 a single one.
//!
//! All of this blocks, though seldom for long: the kernel answers from memory, unless it must first reclaim some from a
//! pod.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use super::name::GroupName;
use super::values::{self, Setting, Values, Version};

/// The cgroup hierarchies of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchies {
    pub(super) version: Version,
    mounts: Vec<Hierarchy>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    point: PathBuf,
    /// Empty for a hierarchy without controllers, which only groups processes.
    controllers: Vec<String>,
}

/// The v1 controllers in whose hierarchies a pod's cgroup is created: those that limit its resources. Runtimes create
/// it in the others, where they need it.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

impl Hierarchies {
    /// Reads the mount table; `None` if there are no cgroups.
    pub(super) fn of_mounts(table: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let lines = table.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            Some((PathBuf::from(words.next()?), words.next()?, words.next()?))
        });
        let all: Vec<(PathBuf, &str, &str)> = lines
            .filter(|(point, kind, _)| point.starts_with(root) && matches!(*kind, "cgroup" | "cgroup2"))
            .collect();
        if all.iter().any(|(point, kind, _)| *kind == "cgroup2" && point == root) {
            let mounts = vec![Hierarchy { point: root.to_owned(), controllers: Vec::new() }];
            return Some(Self { version: Version::Two, mounts });
        }
        let controllers = |options: &str| {
            let known = options.split(',').filter(|option| CONTROLLERS.contains(option));
            known.map(str::to_owned).collect::<Vec<_>>()
        };
        let mounts: Vec<Hierarchy> = all
            .into_iter()
            .map(|(point, _, options)| Hierarchy { point, controllers: controllers(options) })
            .collect();
        let is_usable = mounts.iter().any(|mount| !mount.controllers.is_empty());
        is_usable.then_some(Self { version: Version::One, mounts })
    }

    #[cfg(test)]
    pub(super) fn in_folder(version: Version, folders: &[(PathBuf, &[&str])]) -> Self {
        let mounts = folders.iter().map(|(point, controllers)| Hierarchy {
            point: point.clone(),
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
        });
        Self { version, mounts: mounts.collect() }
    }

    /// Creates a cgroup, along with any missing parents.
    pub(super) fn make(&self, group: &GroupName) -> io::Result<()> {
        for mount in self.mounts.iter().filter(|mount| self.is_made_in(mount)) {
            // Usually all parents of a pod's cgroup exist.
            if self.version == Version::One && make_folder(&mount.folder(group)).is_ok() {
                continue;
            }
            for step in group.lineage() {
                let folder = mount.folder(&step);
                make_folder(&folder)?;
                if self.version == Version::Two {
                    pass_on_controllers(&folder);
                }
            }
        }
        Ok(())
    }

    /// Sets the resources of a cgroup. Setting a value is expensive in the kernel but reading it is not, so values that
    /// are already right are left alone.
    pub(super) fn write(&self, group: &GroupName, values: &Values) -> io::Result<()> {
        self.write_all(group, values.settings(self.version))
    }

    /// Sets what all pods may use together.
    pub(super) fn bound(&self, root: &GroupName, cpu_shares: i64, memory: Option<i64>) -> io::Result<()> {
        self.write_all(root, values::of_all_pods(self.version, cpu_shares, memory))
    }

    fn write_all(&self, group: &GroupName, settings: Vec<Setting>) -> io::Result<()> {
        for setting in settings {
            let has_it =
                |mount: &&Hierarchy| self.version == Version::Two || mount.controls(setting.controller);
            let folder = self.mounts.iter().find(has_it).map(|mount| mount.folder(group));
            let is_set = folder.as_deref().map_or(Ok(false), |folder| set(folder, &setting))?;
            // A machine without a controller cannot limit what it does not count; runtimes report that where it
            // matters.
            if !is_set && setting.must_hold {
                let Setting { controller, file, .. } = setting;
                let why = format!("cannot set {file}: this machine has no {controller} controller");
                return Err(io::Error::new(io::ErrorKind::Unsupported, why));
            }
        }
        Ok(())
    }

    /// Removes a cgroup and those below it. A cgroup with processes in it stays, and is an error.
    pub(super) fn remove(&self, group: &GroupName) -> io::Result<()> {
        self.mounts.iter().try_for_each(|mount| remove_tree(&mount.folder(group)))
    }

    /// Kills the processes in a cgroup and in those below it, and returns how many there were. They end when they can.
    pub(super) fn kill(&self, group: &GroupName) -> usize {
        let mut members = BTreeSet::new();
        self.mounts.iter().for_each(|mount| add_members(&mount.folder(group), &mut members));
        let is_killed = |pid: &&i32| {
            // Processes from other PID namespaces are listed as 0, which is no valid PID.
            Pid::from_raw(**pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        };
        members.iter().filter(is_killed).count()
    }

    /// Removes a cgroup if it is empty.
    pub(super) fn remove_if_empty(&self, group: &GroupName) {
        for mount in &self.mounts {
            // The only possible error would be that it is not empty.
            let _ = std::fs::remove_dir(mount.folder(group));
        }
    }

    fn is_made_in(&self, mount: &Hierarchy) -> bool {
        self.version == Version::Two || !mount.controllers.is_empty()
    }
}

impl Hierarchy {
    fn folder(&self, group: &GroupName) -> PathBuf {
        self.point.join(group.path().trim_start_matches('/'))
    }

    fn controls(&self, controller: &str) -> bool {
        self.controllers.iter().any(|known| known == controller)
    }
}

/// Sets a value in a file, and returns whether the cgroup has such a file.
fn set(folder: &Path, Setting { file, value, .. }: &Setting) -> io::Result<bool> {
    let path = folder.join(file);
    match std::fs::read_to_string(&path) {
        Ok(present) if present.trim_end() == value => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.exists() => Ok(false),
        // The whole cgroup is gone: the caller recreates it if needed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(at(&path, &error)),
        Ok(_) | Err(_) => std::fs::write(&path, value).map(|()| true).map_err(|error| at(&path, &error)),
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(at(folder, &error)),
        Err(_) | Ok(()) => Ok(()),
    }
}

/// Enables controllers for child cgroups: a cgroup can only limit what its parent passes on.
fn pass_on_controllers(folder: &Path) {
    let Some(parent) = folder.parent() else { return };
    let available = std::fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    let wanted = ["cpu", "cpuset", "memory", "pids", "hugetlb", "io"];
    let is_there = |name: &&str| available.split_whitespace().any(|known| known == *name);
    let passed: Vec<String> =
        wanted.iter().filter(|name| is_there(name)).map(|name| format!("+{name}")).collect();
    let file = parent.join("cgroup.subtree_control");
    if !passed.is_empty() && file.exists() {
        enable(&passed, |names| std::fs::write(&file, names).map_err(|error| at(&file, &error)));
    }
}

/// Enables all controllers at once. If one of them prevents that, each is enabled separately: a limit that needs a
/// missing one fails when it is set.
fn enable(controllers: &[String], write: impl Fn(&str) -> io::Result<()>) {
    if write(&controllers.join(" ")).is_ok() {
        return;
    }
    for controller in controllers {
        if let Err(error) = write(controller) {
            tracing::debug!(%controller, %error, "a controller cannot be passed on");
        }
    }
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| at(folder, &error))?,
    };
    for entry in entries.flatten() {
        // Everything but folders goes away with the cgroup.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|error| at(folder, &error)),
    }
}

fn add_members(folder: &Path, members: &mut BTreeSet<i32>) {
    let listed = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    members.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
    // What cannot be read is gone, or will produce an error when it is removed.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_members(&entry.path(), members);
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_tells_which_version_there_is() {
        let two = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(Hierarchies::of_mounts(two).map(|found| found.version), Some(Version::Two));
        let one = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                   cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n\
                   cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /elsewhere cgroup rw,memory 0 0\n";
        let found = Hierarchies::of_mounts(one).unwrap();
        assert_eq!((found.version, found.mounts.len()), (Version::One, 3));
        assert!(found.mounts[0].controls("cpu"));
        assert!(!found.is_made_in(&found.mounts[1]));
        assert_eq!(Hierarchies::of_mounts("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn groups_are_made_where_they_are_told_what_they_may_use() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for name in ["memory", "cpu", "systemd"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let hierarchies = Hierarchies::in_folder(
            Version::One,
            &[(at("memory"), &["memory"]), (at("cpu"), &["cpu"]), (at("systemd"), &[])],
        );
        let group = GroupName::root("/").tier(crate::pod::QosClass::BestEffort);
        // First from nothing, with the parents created as well; then when it already exists.
        for _ in 0..2 {
            hierarchies.make(&group).unwrap();
            hierarchies.make(&group).unwrap();
            assert!(at("memory/kubepods/besteffort").exists() && at("cpu/kubepods/besteffort").exists());
            assert!(!at("systemd/kubepods").exists());
            std::fs::remove_dir(at("cpu/kubepods/besteffort")).unwrap();
        }
    }

    #[test]
    fn nothing_is_set_to_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let hierarchies =
            Hierarchies::in_folder(Version::One, &[(folder.path().to_owned(), &["cpu", "memory"])]);
        let group = GroupName::root("/");
        hierarchies.make(&group).unwrap();
        let shares = folder.path().join("kubepods/cpu.shares");
        std::fs::write(&shares, "2\n").unwrap();
        hierarchies.write(&group, &Values::weight(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&shares).unwrap(), "2\n", "as the kernel writes it");
        hierarchies.write(&group, &Values::weight(3)).unwrap();
        assert_eq!(std::fs::read_to_string(&shares).unwrap(), "3");
    }

    #[test]
    fn controllers_are_passed_on_from_the_top() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cgroup.controllers"), "cpu io memory rdma\n").unwrap();
        std::fs::write(folder.path().join("cgroup.subtree_control"), "").unwrap();
        let hierarchies = Hierarchies::in_folder(Version::Two, &[(folder.path().to_owned(), &[])]);
        hierarchies.make(&GroupName::root("/")).unwrap();
        let passed = std::fs::read_to_string(folder.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(passed, "+cpu +memory +io");
    }

    #[test]
    fn one_controller_that_cannot_be_passed_on_keeps_back_no_other() {
        let table = [
            ("", vec!["+cpu +memory +io"]),
            ("+io", vec!["+cpu", "+memory"]),
            ("+cpu", vec!["+memory", "+io"]),
            ("+", vec![]),
        ];
        for (refused, wanted) in table {
            let written = std::cell::RefCell::new(Vec::new());
            let write = |names: &str| {
                if !refused.is_empty() && names.contains(refused) {
                    return Err(io::ErrorKind::ResourceBusy.into());
                }
                written.borrow_mut().push(names.to_owned());
                Ok(())
            };
            enable(&["+cpu", "+memory", "+io"].map(str::to_owned), write);
            assert_eq!(written.into_inner(), wanted, "without {refused}");
        }
    }
}
