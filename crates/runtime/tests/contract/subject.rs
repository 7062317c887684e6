//! The embedded runtime as a process of its own, gone without a trace when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rubelet_testbed::wait;

const LIMIT: Duration = Duration::from_secs(30);

/// A control group that is emptied and removed at the end, whatever happened.
#[derive(Debug)]
pub(crate) struct Group(String);

impl Group {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    fn folders(&self) -> Vec<PathBuf> {
        let below = self.0.trim_start_matches('/');
        let unified = PathBuf::from("/sys/fs/cgroup").join(below);
        let split = fs::read_dir("/sys/fs/cgroup")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join(below));
        split.chain([unified]).filter(|folder| folder.is_dir()).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        wait::until(LIMIT, || {
            let folders = self.folders();
            folders.iter().for_each(|folder| empty(folder));
            folders.is_empty().then_some(())
        });
    }
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            empty(&entry.path());
        }
    }
    for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
        kill(pid);
    }
    let _ = fs::remove_dir(folder);
}

fn kill(pid: &str) {
    let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
}

/// The runtime under test.
#[derive(Debug)]
pub(crate) struct Embedded {
    process: Option<Child>,
    dir: tempfile::TempDir,
    socket: PathBuf,
    cni: Option<PathBuf>,
    group: Group,
}

impl Embedded {
    /// Starts one; `None`, said aloud, where this user cannot run containers.
    pub(crate) fn start(name: &str, cni: Option<PathBuf>) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: the embedded runtime's tests need root");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("rbl").tempdir().expect("a folder");
        let group = format!("/rubelet-{name}-{}", std::process::id());
        let mut runtime =
            Self { process: None, socket: dir.path().join("s"), dir, cni, group: Group::new(&group) };
        runtime.launch();
        Some(runtime)
    }

    pub(crate) fn launch(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet-runtime"));
        command.arg(&self.socket).arg(self.data()).args(&self.cni).stdin(Stdio::null());
        self.process = Some(command.spawn().expect("the runtime starts"));
        let answers = || std::os::unix::net::UnixStream::connect(&self.socket).ok();
        wait::until(LIMIT, answers).expect("the runtime answers");
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The group that holds all pods of the test.
    pub(crate) fn cgroup(&self) -> String {
        self.group.0.clone()
    }

    /// Control groups of pods that are left.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let children = |folder: &PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect()
        };
        self.group.folders().iter().flat_map(children).collect()
    }

    /// Shims and helpers: processes that work in our folder.
    pub(crate) fn shims(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter(|entry| {
                fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.dir.path()))
            })
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// Places mounted below our folder, innermost first.
    pub(crate) fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned);
        let mut points: Vec<String> =
            points.filter(|point| Path::new(point).starts_with(self.dir.path())).collect();
        points.sort();
        points.reverse();
        points
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
        wait::until(LIMIT, || {
            let shims = self.shims();
            shims.iter().for_each(|pid| kill(pid));
            shims.is_empty().then_some(())
        });
        for point in self.mounts() {
            let _ = Command::new("umount").args(["-l", &point]).status();
        }
    }
}
