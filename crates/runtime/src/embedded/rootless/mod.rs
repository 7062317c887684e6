//! Running without root: the runtime becomes root of a user namespace of its own.
//!
//! A namespace ends with its last process, and a runtime may be killed at any moment while its sandboxes are held by
//! nothing but mounts. So a tiny process holds the user and the mount namespace; every runtime with the same data
//! folder joins them, and finds everything as the previous one left it.

pub(crate) mod holder;
pub(crate) mod ids;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use nix::sched::{CloneFlags, setns};
use rustix::process::{Signal, pidfd_send_signal};

use super::error::{Error, Result};
use super::identity::Identity;
use super::runtime::Options;
use super::store::{self, Durability, Layout};

const RECORD: &str = "holder.json";
const LOCK: &str = "holder.lock";

/// The root of a user namespace, or that of the machine.
#[derive(Debug)]
pub struct Root {
    /// The process that holds our namespaces; `None` for the machine's own root.
    holder: Option<OwnedFd>,
}

/// Whether this process is already root, of the machine or of a user namespace.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Root {
    /// Makes this process root of a user namespace that belongs to the data folder, unless it is root already.
    ///
    /// Must be called while there is only one thread: the kernel moves no process that has more. Afterwards all paths
    /// are absolute, since the working folder is lost on the way.
    ///
    /// # Errors
    ///
    /// If the kernel allows this user no user namespaces: the error says what would help.
    pub fn become_root(options: &mut Options) -> Result<Self, Error> {
        for path in [&mut options.socket, &mut options.data_dir].into_iter().chain(&mut options.cni_conf_dir)
        {
            *path = std::path::absolute(&*path)
                .map_err(|error| Error::io(format!("find {}", path.display()), error))?;
        }
        if is_root() {
            return Ok(Self { holder: None });
        }
        store::make_dir(&options.data_dir)?;
        let _lock = lock(&options.data_dir.join(LOCK))?;
        let record = options.data_dir.join(RECORD);
        let holder = match living(&record)? {
            Some(holder) => holder,
            None => start(&options.data_dir, &record, &options.shim)?,
        };
        setns(&holder, CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
            .map_err(|errno| Error::io("join the user namespace of the data folder", errno))?;
        Ok(Self { holder: Some(holder) })
    }

    /// Releases the namespaces, unless a pod or another runtime still needs them. Must be called when the runtime of
    /// this process has ended, for whatever reason.
    pub fn release(self, options: &Options) {
        let Some(holder) = self.holder else { return };
        let Ok(_nobody_else) = store::lock(&options.data_dir) else { return };
        let sandboxes = Layout::new(options.data_dir.clone()).sandboxes();
        if store::entries(&sandboxes).is_ok_and(|left| left.is_empty()) {
            let _ = fs::remove_file(options.data_dir.join(RECORD));
            let _ = pidfd_send_signal(&holder, Signal::KILL);
        }
    }
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).map_err(|error| Error::io(format!("open {}", path.display()), error))?;
    file.lock().map_err(|error| Error::io(format!("lock {}", path.display()), error))?;
    Ok(file)
}

fn living(record: &Path) -> Result<Option<OwnedFd>> {
    Ok(store::read_json::<Identity>(record)?.and_then(|holder| holder.open()))
}

fn start(data_dir: &Path, record: &Path, program: &Path) -> Result<OwnedFd> {
    let mut child = Command::new(program)
        .arg(super::shim::HOLDER)
        .env_clear()
        // Shows which data folder it belongs to.
        .current_dir(data_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Error::io("start the process that holds the user namespace", error))?;
    let pid = i32::try_from(child.id()).unwrap_or_default();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let made = match (stdin, stdout) {
        (Some(stdin), Some(stdout)) => furnish(pid, stdin, stdout),
        _ => Err(Error::Internal("a child process has no pipes".to_owned())),
    };
    if let Err(error) = made {
        let _ = child.kill();
        let _ = child.wait();
        return Err(error);
    }
    let missing =
        || Error::Internal("the process that holds the user namespace exited immediately".to_owned());
    let holder = Identity::of(pid).ok_or_else(missing)?;
    store::write_json(record, &holder, Durability::Process)?;
    holder.open().ok_or_else(missing)
}

/// Waits for the namespaces, and fills their id maps from outside.
fn furnish(pid: i32, mut stdin: ChildStdin, stdout: ChildStdout) -> Result<()> {
    let mut words = BufReader::new(stdout);
    let mut line = String::new();
    let _ = words.read_line(&mut line);
    match holder::Report::parse(line.trim_end()) {
        Some(holder::Report::Ready) => {}
        Some(holder::Report::Refused(errno)) => return Err(refused(errno)),
        None => {
            return Err(Error::Internal(
                "the process that holds the user namespace exited without a message".to_owned(),
            ));
        }
    }
    map_ids(pid)?;
    let _ = stdin.write_all(b"\n");
    drop(stdin);
    // The holder closes its end once it is ready, and from then on only waits.
    let _ = words.read_to_string(&mut line);
    Ok(())
}

fn map_ids(pid: i32) -> Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let name = ids::user_name(&read("/etc/passwd"), uid);
    let (users, groups) = (
        ids::subordinate(&read("/etc/subuid"), name.as_deref(), uid),
        ids::subordinate(&read("/etc/subgid"), name.as_deref(), uid),
    );
    if let (Some(users), Some(groups)) = (users, groups)
        && helper("newuidmap", pid, uid, users)
        && helper("newgidmap", pid, gid, groups)
    {
        return Ok(());
    }
    let write = |file: &str, text: String| {
        let path = PathBuf::from(format!("/proc/{pid}/{file}"));
        fs::write(&path, text).map_err(|error| Error::io(format!("write {}", path.display()), error))
    };
    // The kernel requires this before a process without root may write a map.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {uid} 1\n"))?;
    write("gid_map", format!("0 {gid} 1\n"))
}

/// Maps the ranges that an administrator assigned to this user, with the system's helper. Returns false if that fails.
fn helper(program: &str, pid: i32, own: u32, range: ids::Range) -> bool {
    let numbers = [0, own, 1, 1, range.first, range.count].map(|number| number.to_string());
    let mut command = Command::new(program);
    command.arg(pid.to_string()).args(numbers).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns the error for a missing user namespace, with what would help on this machine.
fn refused(errno: i32) -> Error {
    let number = |path: &str| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    Error::Rootless {
        source: std::io::Error::from_raw_os_error(errno),
        advice: advice(
            number("/proc/sys/user/max_user_namespaces"),
            number("/proc/sys/kernel/unprivileged_userns_clone"),
            number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        ),
    }
}

fn advice(most: Option<u64>, debian: Option<u64>, apparmor: Option<u64>) -> &'static str {
    match (most, debian, apparmor) {
        (Some(0), _, _) => "run as root, or allow user namespaces: sysctl user.max_user_namespaces=10000",
        (_, Some(0), _) => "run as root, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
        (_, _, Some(1..)) => {
            "run as root, or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        }
        _ => "run as root; this kernel, or the container that this runs in, does not allow user namespaces",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_switch_that_is_off() {
        for (switches, word) in [
            ((Some(0), Some(1), None), "user.max_user_namespaces"),
            ((Some(9), Some(0), None), "unprivileged_userns_clone"),
            ((Some(9), None, Some(1)), "apparmor_restrict"),
            ((Some(9), Some(1), Some(0)), "does not allow user namespaces"),
            ((None, None, None), "run as root"),
        ] {
            let text = advice(switches.0, switches.1, switches.2);
            assert!(text.contains(word), "{switches:?}: {text}");
        }
    }
}
