//! A process of the shim that joins the container and becomes a command in it.
//!
//! The shim has one thread and little memory, so forking it is cheap; starting the whole program for every command is
//! not. A command gets what the container's own program was given: user, groups, capabilities, filter, folder,
//! variables, control group. Only its arguments and its streams are its own.

use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{Gid, Uid};
use serde::Deserialize;

use super::settings::{Payload, Settings};
use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};
use crate::embedded::{container, process, store, user};

/// The container, as its shim knows it.
pub(super) struct Host<'a> {
    pub(super) settings: &'a Settings,
    pub(super) cgroups: &'a Cgroups,
    /// The container's first process, which is not reaped yet.
    pub(super) pid: i32,
}

/// Where a command's output goes.
pub(super) struct Streams {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The parts of the container's spec that apply to commands as well.
#[derive(Debug, Deserialize)]
struct Spec {
    process: Process,
    linux: Linux,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    user: User,
    #[serde(default)]
    env: Vec<String>,
    cwd: String,
    #[serde(default)]
    no_new_privileges: bool,
    apparmor_profile: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    uid: u32,
    gid: u32,
    #[serde(default)]
    additional_gids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
struct Linux {
    namespaces: Vec<Namespace>,
}

#[derive(Debug, Deserialize)]
struct Namespace {
    r#type: String,
}

impl Spec {
    fn read() -> Result<Self> {
        let missing = || Error::Internal("the container's spec is missing".to_owned());
        store::read_json(Path::new(container::SPEC))?.ok_or_else(missing)
    }

    /// Returns the namespaces that the container does not share with the host, except that for processes: a process
    /// enters that one only by being born in it, which the shim takes care of.
    fn namespaces(&self) -> CloneFlags {
        self.linux.namespaces.iter().fold(CloneFlags::empty(), |flags, namespace| {
            flags
                | match namespace.r#type.as_str() {
                    "mount" => CloneFlags::CLONE_NEWNS,
                    "ipc" => CloneFlags::CLONE_NEWIPC,
                    "uts" => CloneFlags::CLONE_NEWUTS,
                    "network" => CloneFlags::CLONE_NEWNET,
                    "cgroup" => CloneFlags::CLONE_NEWCGROUP,
                    _ => CloneFlags::empty(),
                }
        })
    }
}

/// Starts a command, and returns its pid. A later failure is written to `complaint`, which closes on success.
pub(super) fn spawn(host: &Host<'_>, words: OwnedFd, streams: &Streams, complaint: OwnedFd) -> Result<i32> {
    let pid =
        Pid::from_raw(host.pid).ok_or_else(|| Error::Internal("the container has no process".to_owned()))?;
    let container =
        pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| Error::io("find the container", errno))?;
    // This is permanent: all later children of the shim are born there, since not everybody may go back (root of a user
    // namespace has no right to the host's pid namespace). The shim has no other children to start.
    setns(&container, CloneFlags::CLONE_NEWPID)
        .map_err(|errno| Error::io("enter the container's process namespace", errno))?;
    let group = host.cgroups.to_be_born_in(&host.settings.cgroup);
    let born = process::fork(group.as_ref().map(|folder| folder.as_fd()));
    match born.map_err(|errno| Error::io("create a process", errno))? {
        process::Born::Parent(pid) => Ok(pid),
        process::Born::Child { in_group } => {
            let Err(error) = become_command(host, &container, words, streams, &complaint, in_group);
            let _ = File::from(complaint).write_all(error.to_string().as_bytes());
            process::exit_now(255)
        }
    }
}

fn become_command(
    host: &Host<'_>,
    container: &OwnedFd,
    words: OwnedFd,
    streams: &Streams,
    complaint: &OwnedFd,
    in_group: bool,
) -> Result<Infallible> {
    if !in_group {
        host.cgroups
            .join(&host.settings.cgroup, host.pid)
            .map_err(|error| Error::io("join the control group", error))?;
    }
    share_oom_score(host.pid)?;
    let spec = Spec::read()?;
    let apparmor = spec.process.apparmor_profile.as_deref().map(AppArmor::open).transpose()?;
    // From here on, a process in the container may see this one: it must not be able to inspect it.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| Error::io("hide from the container", errno))?;
    let Payload::Program(confinement) = host.settings.payload else {
        return Err(Error::invalid("exec", "commands cannot run in a pod's pause container"));
    };
    let filter = confinement.filter()?;
    let words = read_words(words)?;
    let program = words.first().ok_or_else(|| Error::invalid("cmd", "is empty"))?;
    rustix::process::setsid().map_err(|errno| Error::io("start a session", errno))?;
    redirect(streams)?;
    process::give_streams_to(spec.process.user.uid)?;
    let held = process::beyond_streams();

    setns(container, spec.namespaces()).map_err(|errno| Error::io("join the container", errno))?;
    if let Some(apparmor) = apparmor {
        apparmor.apply()?;
    }
    // A path may lead through a descriptor of ours and out of the container; this includes the program's own path.
    process::close_all(held.into_iter().filter(|fd| *fd != complaint.as_raw_fd()));
    become_user(&spec.process)?;
    if spec.process.no_new_privileges {
        rustix::thread::set_no_new_privs(true).map_err(|errno| Error::io("drop privileges", errno))?;
    }
    process::replace_environment(environment(&spec.process));
    process::reset_signals().map_err(|errno| Error::io("reset signals", errno))?;
    process::confine(confinement.rights, filter.as_ref())?;
    nix::unistd::execvp(program, &words)
        .map_err(|errno| Error::State(format!("exec {:?}: {}", program.to_string_lossy(), errno.desc())))
}

/// Copies the container's score: the kernel treats a command like the container, even if the score has changed since
/// the container was created.
fn share_oom_score(init: i32) -> Result<()> {
    let failed = |error| Error::io("copy the container's oom_score_adj", error);
    let score = std::fs::read_to_string(format!("/proc/{init}/oom_score_adj")).map_err(failed)?;
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").map_err(failed)?;
    if own == score { Ok(()) } else { std::fs::write("/proc/self/oom_score_adj", score).map_err(failed) }
}

fn read_words(words: OwnedFd) -> Result<Vec<CString>> {
    let mut bytes = Vec::new();
    File::from(words).read_to_end(&mut bytes).map_err(|error| Error::io("read the command", error))?;
    // Each argument ends with a NUL, which none can contain.
    let words =
        bytes.split_inclusive(|byte| *byte == 0).map(|word| CString::from_vec_with_nul(word.to_vec()));
    words.collect::<Result<_, _>>().map_err(|_| Error::invalid("cmd", "the last argument is not terminated"))
}

fn redirect(streams: &Streams) -> Result<()> {
    let null = File::open("/dev/null").map_err(|error| Error::io("open /dev/null", error))?;
    let redirected = rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&streams.stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(&streams.stderr));
    redirected.map_err(|errno| Error::io("set up streams", errno))
}

/// A profile that takes effect when the program starts. Opened outside: the container's `/proc` cannot be trusted.
struct AppArmor<'a> {
    file: File,
    profile: &'a str,
}

impl<'a> AppArmor<'a> {
    fn open(profile: &'a str) -> Result<Self> {
        let open = |path| File::options().write(true).open(path);
        let file =
            open("/proc/thread-self/attr/apparmor/exec").or_else(|_| open("/proc/thread-self/attr/exec"));
        let file = file.map_err(|error| Error::io("set an AppArmor profile", error))?;
        Ok(Self { file, profile })
    }

    fn apply(mut self) -> Result<()> {
        self.file
            .write_all(format!("exec {}", self.profile).as_bytes())
            .map_err(|error| Error::io(format!("set the AppArmor profile {}", self.profile), error))
    }
}

/// Enters the folder, then changes the user. The folder comes first, since a user may run in one that only root can
/// enter. Capabilities are kept for now.
fn become_user(process: &Process) -> Result<()> {
    let enter = || rustix::process::chdir(&process.cwd);
    let entered = enter();
    let groups: Vec<Gid> = process.user.additional_gids.iter().map(|gid| Gid::from_raw(*gid)).collect();
    match rustix::thread::set_thread_groups(&groups) {
        // Where the kernel does not allow this (a user namespace of one user), they are that user's and stay.
        Err(_) if groups.is_empty() => {}
        other => other.map_err(|errno| Error::io("set the groups", errno))?,
    }
    let (uid, gid) = (Uid::from_raw(process.user.uid), Gid::from_raw(process.user.gid));
    rustix::thread::set_keep_capabilities(true)
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid))
        .and_then(|()| rustix::thread::set_keep_capabilities(false))
        .map_err(|errno| {
            Error::io(format!("switch to user {} and group {}", process.user.uid, process.user.gid), errno)
        })?;
    let in_folder = |errno| Error::io(format!("change to the folder {:?}", process.cwd), errno);
    match entered {
        // The file system may grant access to the user, but not to root.
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => enter().map_err(in_folder)?,
        other => other.map_err(in_folder)?,
    }
    // A path can lead through a descriptor of ours; its target is then not in the container.
    let inside = rustix::process::getcwd(Vec::new()).is_ok_and(|path| path.as_bytes().starts_with(b"/"));
    if inside { Ok(()) } else { Err(Error::State(format!("{:?} is outside the container", process.cwd))) }
}

/// Returns the container's variables, with a `HOME`: `/` for an unknown user.
fn environment(process: &Process) -> Vec<(String, String)> {
    let pairs = process.env.iter().filter_map(|entry| entry.split_once('='));
    let mut variables: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if !variables.iter().any(|(name, value)| name == "HOME" && !value.is_empty()) {
        let mut passwd = String::new();
        if let Ok(file) = File::open("/etc/passwd") {
            let _ = file.take(1 << 20).read_to_string(&mut passwd);
        }
        let home = user::home(&passwd, process.user.uid).unwrap_or("/");
        variables.push(("HOME".to_owned(), home.to_owned()));
    }
    variables
}
