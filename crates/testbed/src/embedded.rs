//! Our own runtime under test, as a separate process in a private folder, removed without a trace on drop.
//!
//! Its containers are meant to outlive it, so what it leaves behind is searched for: processes, mounts, control groups.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::group::Group;
use crate::requirement::{self, Missing};
use crate::{mounts, processes, wait};

const LIMIT: Duration = Duration::from_secs(30);

fn children(pid: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The folder of a runtime under test.
#[derive(Debug)]
pub struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// The folder itself, which is removed with the runtime.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The path of the socket to listen on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir().join("s")
    }

    /// The path of the data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.dir().join("data")
    }
}

type Program = Box<dyn Fn(&Place) -> Command + Send>;

/// The embedded runtime under test.
pub struct Embedded {
    process: Option<Child>,
    program: Program,
    place: Place,
    group: Group,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("process", &self.process).field("place", &self.place).finish()
    }
}

impl Embedded {
    /// Starts the command that `program` returns; `None`, with a message, if this user cannot run containers.
    ///
    /// # Panics
    /// If it does not start, or if it must not be skipped here (see [`requirement`]).
    #[must_use]
    pub fn start(name: &str, program: impl Fn(&Place) -> Command + Send + 'static) -> Option<Self> {
        let missing = if rustix::process::geteuid().is_root() { Vec::new() } else { vec![Missing::Root] };
        if !requirement::is_met("the embedded runtime", &missing) {
            return None;
        }
        // Not the configured temporary folder, because the path of a socket must be short.
        let dir = tempfile::Builder::new().prefix("rbl").tempdir_in("/tmp").expect("a folder in /tmp");
        let group = Group::new(&format!("/rubelet-{name}-{}", std::process::id()));
        let mut runtime = Self { process: None, program: Box::new(program), place: Place { dir }, group };
        runtime.launch();
        Some(runtime)
    }

    /// Starts it again, after [`kill`](Self::kill).
    ///
    /// # Panics
    /// If it does not start.
    pub fn launch(&mut self) {
        let child = (self.program)(&self.place).stdin(Stdio::null()).spawn();
        self.process = Some(child.expect("the runtime starts"));
        let answers = || UnixStream::connect(self.socket()).ok();
        wait::until(LIMIT, answers).expect("the runtime answers");
    }

    /// Kills it without warning. Containers keep running.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops it as a service manager would, and waits until it has ended. Containers keep running.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = rustix::process::kill_process(Pid::from_child(process), Signal::TERM);
            wait::until(LIMIT, || process.try_wait().ok().flatten()).expect("the runtime ends");
            self.process = None;
        }
    }

    /// Its process id, if it is running.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.place.socket()
    }

    /// Its private folder.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// The control group below which all pods of the test are to be.
    pub fn cgroup(&self) -> String {
        self.group.path().to_owned()
    }

    /// The remaining control groups of pods.
    pub fn groups(&self) -> Vec<PathBuf> {
        self.group.children()
    }

    /// Its shims and helpers: the processes that work in its folder.
    pub fn shims(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter(|entry| {
                fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.dir()))
            })
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// The mount points below its folder.
    pub fn mounts(&self) -> Vec<PathBuf> {
        mounts::below(self.dir()).unwrap_or_default()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.kill();
        wait::until(LIMIT, || {
            let shims = self.shims();
            for shim in shims.iter().filter_map(|shim| shim.parse().ok()) {
                // Containers first: without their shim they are orphans, which would not be found any more.
                let children = children(shim);
                if children.is_empty() {
                    processes::kill(shim);
                }
                children.into_iter().for_each(processes::kill);
            }
            shims.is_empty().then_some(())
        });
        if let Err(error) = mounts::detach_below(self.dir()) {
            eprintln!("warning: {error}");
        }
    }
}
