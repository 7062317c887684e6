//! The search for the processes of a runtime whose daemon is gone (shims, and the containers below them), and their
//! end.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::{Error, wait};

const END_LIMIT: Duration = Duration::from_secs(20);

/// Ends everything that belongs to the runtime in this folder. Containers go first, while their shim can still reap
/// them.
pub(crate) fn end_all_of(dir: &Path) -> Result<(), Error> {
    let mut left = Belongings::default();
    let gone = wait::until(END_LIMIT, || {
        left = Belongings::of(dir);
        let next = if left.containers.is_empty() { &left.shims } else { &left.containers };
        next.iter().copied().for_each(kill);
        next.is_empty().then_some(())
    });
    gone.ok_or_else(|| Error::LeftBehind {
        dir: dir.to_path_buf(),
        what: left.shims.iter().chain(&left.containers).map(|pid| format!("process {pid}")).collect(),
    })
}

/// Kills a process if it still exists.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended since it was found; the next check will show.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

#[derive(Debug, Default)]
struct Belongings {
    /// Programs of the runtime with a path in its folder among their arguments: shims, and whatever they or the daemon
    /// run.
    shims: HashSet<i32>,
    /// What the shims started, and everything whose root filesystem belongs to this runtime: the children of a killed
    /// shim have lost their parent.
    containers: HashSet<i32>,
}

impl Belongings {
    fn of(dir: &Path) -> Self {
        // The slash distinguishes slot 2 from slot 20.
        let below = format!("{}/", dir.display());
        let parents = parents();
        let shims: HashSet<_> =
            parents.keys().copied().filter(|pid| is_program_of_runtime(*pid, &below)).collect();
        let is_below_shim = |pid: i32| {
            let ancestors = std::iter::successors(parents.get(&pid), |parent| parents.get(*parent));
            // The limit guards against a cycle, since the table was not read atomically.
            ancestors.take(parents.len()).any(|ancestor| shims.contains(ancestor))
        };
        let containers = parents
            .keys()
            .copied()
            .filter(|pid| !shims.contains(pid) && (is_below_shim(*pid) || has_root_of_runtime(*pid, &below)))
            .collect();
        Self { shims, containers }
    }
}

/// Returns the parent of every process that has not ended yet.
fn parents() -> HashMap<i32, i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, parent(&read(pid, "stat"))?))).collect()
}

/// Parses `pid (name) state parent …`, where the name may contain anything.
fn parent(stat: &str) -> Option<i32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
}

/// Checks the name as well as the path: a pager that shows the log is not ours to kill.
fn is_program_of_runtime(pid: i32, below: &str) -> bool {
    let command = read(pid, "cmdline");
    let program = command.split('\0').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    (program.starts_with("containerd") || program == "runc" || program == "ctr") && command.contains(below)
}

/// Parses lines of `id parent device root mount-point options … - type source options`.
fn has_root_of_runtime(pid: i32, below: &str) -> bool {
    let mounts = read(pid, "mountinfo");
    mounts.lines().any(|line| line.split(' ').nth(4) == Some("/") && line.contains(below))
}

/// Reads a file of a process; empty if the process has ended.
fn read(pid: i32, file: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::parent;

    #[test]
    fn a_parent_is_read_past_any_name_and_not_from_the_dead() {
        assert_eq!(parent("7 (sh) S 3 7 7 0"), Some(3));
        assert_eq!(parent("7 (a) Z 9) R 3 7 7 0"), Some(3));
        assert_eq!(parent("7 (sh) Z 3 7 7 0"), None);
        assert_eq!(parent(""), None);
    }
}
