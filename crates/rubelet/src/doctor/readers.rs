//! Processes that are connected to the runtime and stalled: they are stopped, or blocked because nobody takes what they
//! write. Commands of rubelet keep reading while their output is blocked.
//!
//! Only the kernel's socket diagnosis knows which process is at the other end of a unix socket: it reports each
//! socket's name, if it has one, and the inode number of its peer. Sockets with the runtime's name are its own ends of
//! connections; their peers are the other ends, and processes have them open under `/proc/PID/fd`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::process::{self, WaitingWriter};

/// A stalled process that is connected to the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StalledReader {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) why: Standstill,
}

/// Why a process is stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    /// It was stopped, by Ctrl-Z, SIGSTOP or a debugger.
    Stopped,
    /// Nobody reads the pipe that it writes to.
    WaitsToWrite,
}

/// A process is stalled only if nothing takes its output for at least this long.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Returns the stalled processes of this machine that are visible to this user.
pub(super) async fn stalled(runtime: &Path) -> Vec<StalledReader> {
    let mut found = standing_still(runtime);
    if found.iter().any(|seen| seen.reader.why == Standstill::WaitsToWrite) {
        tokio::time::sleep(A_MOMENT).await;
        let now = standing_still(runtime);
        found.retain(|before| now.iter().any(|now| now.is_still(before)));
    }
    found.into_iter().map(|seen| seen.reader).collect()
}

/// A process that appears stalled at one point in time.
struct Seen {
    reader: StalledReader,
    writers: BTreeSet<WaitingWriter>,
}

impl Seen {
    /// Whether nothing has moved since. A process that writes to a slow reader waits at each observation, but not in
    /// the same wait.
    fn is_still(&self, before: &Self) -> bool {
        self.reader == before.reader
            && (self.reader.why == Standstill::Stopped || !self.writers.is_disjoint(&before.writers))
    }
}

fn standing_still(runtime: &Path) -> Vec<Seen> {
    let Ok(peers) = peers_of(runtime) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let standing_still = |pid: u32| {
        let folder = process::folder(pid);
        let writers = process::waiting_writers(pid);
        let why = if process::is_stopped(pid) {
            Standstill::Stopped
        } else if !writers.is_empty() && !is_ours(&folder) {
            Standstill::WaitsToWrite
        } else {
            return None;
        };
        if !has_one_of(&folder, &peers) {
            return None;
        }
        let command = std::fs::read(folder.join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
        Some(Seen { reader: StalledReader { pid, command, why }, writers })
    };
    pids.filter_map(standing_still).collect()
}

/// Whether a process is a rubelet command, by its name or because it runs this very program.
fn is_ours(process: &Path) -> bool {
    let program = process.join("exe");
    let file = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    program.read_link().is_ok_and(|path| path.file_name() == Some(OsStr::new("rubelet")))
        || file(&program).is_some_and(|program| Some(program) == file(Path::new("/proc/self/exe")))
}

/// Whether a process has one of these sockets open.
fn has_one_of(process: &Path, sockets: &BTreeSet<u32>) -> bool {
    let Ok(files) = std::fs::read_dir(process.join("fd")) else { return false };
    files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok()).any(|target| {
        let number =
            target.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        number.is_some_and(|number: u32| sockets.contains(&number))
    })
}

/// `SOCK_DIAG_BY_FAMILY`, the type of request and answer; then the types that end an answer.
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`: all sockets.
const ALL: u16 = 0x0301;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_PEER`.
const NAME_AND_PEER: u32 = 0x5;
const NAME: u16 = 0;
const PEER: u16 = 2;
/// The lengths of a message header, and of what precedes the attributes of a socket.
const HEADER: usize = 16;
const SOCKET: usize = 16;

/// Returns the inode numbers of the sockets that are connected to this one.
fn peers_of(path: &Path) -> io::Result<BTreeSet<u32>> {
    let kernel = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    rustix::net::send(&kernel, &request(), SendFlags::empty())?;
    let mut peers = BTreeSet::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = rustix::net::recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || !read_answer(&buffer[..length], path, &mut peers) {
            return Ok(peers);
        }
    }
}

fn request() -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(40_u32.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(ALL.to_ne_bytes());
    message.extend([0; 8]);
    // The family of unix sockets; then protocol and padding, states (any), number (any), what to show, cookie.
    message.extend([1, 0, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(NAME_AND_PEER.to_ne_bytes());
    message.extend([0; 8]);
    message
}

/// Collects the peers of the sockets with this name. Returns false if no more messages follow.
fn read_answer(mut answer: &[u8], path: &Path, peers: &mut BTreeSet<u32>) -> bool {
    while let (Some(length), Some(kind)) = (number(answer, 0), short(answer, 4)) {
        let length = length as usize;
        if kind == DONE || kind == ERROR || length < HEADER || length > answer.len() {
            return false;
        }
        if let Some(attributes) = answer.get(HEADER + SOCKET..length)
            && kind == BY_FAMILY
        {
            peers.extend(peer_if_named(attributes, path));
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn peer_if_named(mut attributes: &[u8], path: &Path) -> Option<u32> {
    let (mut is_named, mut peer) = (false, None);
    while let (Some(length), Some(kind)) = (short(attributes, 0), short(attributes, 2)) {
        let value = attributes.get(4..usize::from(length))?;
        match kind {
            NAME => {
                is_named = is_the_same(value.strip_suffix(&[0]).unwrap_or(value), path);
            }
            PEER => peer = number(value, 0),
            _ => {}
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    peer.filter(|_| is_named)
}

/// Whether a socket's name is this path, perhaps through a symbolic link: `/var/run` leads to `/run`.
fn is_the_same(name: &[u8], path: &Path) -> bool {
    if name == path.as_os_str().as_bytes() {
        return true;
    }
    let name = Path::new(OsStr::from_bytes(name));
    // Nearly all sockets of a machine have other file names, and need no disk access.
    let real = |path: &Path| path.canonicalize().ok();
    name.is_absolute()
        && name.file_name() == path.file_name()
        && real(name).is_some_and(|name| Some(name) == real(path))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;

    use super::*;

    /// A process that has the other end of a connection is found once it is stopped.
    #[tokio::test]
    async fn a_stopped_process_is_found_by_its_connection() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let (ours, _theirs) = connected(&path);
        let inode = std::fs::metadata(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&ours)))
            .expect("open")
            .ino();
        assert!(peers_of(&path).expect("told").contains(&u32::try_from(inode).expect("small")));

        let mut child = Command::new("sleep").arg("600").stdin(OwnedFd::from(ours)).spawn().expect("it runs");
        assert_eq!(stalled(&path).await, [], "it is not stopped");
        Command::new("kill").args(["-STOP", &child.id().to_string()]).status().expect("kill runs");
        while !process::is_stopped(child.id()) {
            std::thread::yield_now();
        }
        let found = stalled(&path).await;
        let by_another_way = folder.path().join("way");
        std::os::unix::fs::symlink(folder.path(), &by_another_way).expect("linked");
        let found_by_another_way = stalled(&by_another_way.join("s")).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        let (command, why) = ("sleep 600".to_owned(), Standstill::Stopped);
        assert_eq!(found, [StalledReader { pid: child.id(), command, why }]);
        assert_eq!(found_by_another_way, found, "as /var/run leads to /run");
        assert_eq!(stalled(&folder.path().join("other")).await, []);
    }

    /// It is also found when nobody takes what it writes, for as long as that is so.
    #[tokio::test]
    async fn a_process_that_nobody_reads_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let (ours, _theirs) = connected(&path);
        let (unread, output) = std::io::pipe().expect("a pipe");
        let mut child =
            Command::new("yes").stdin(OwnedFd::from(ours)).stdout(output).spawn().expect("it runs");
        let waiting = async {
            while process::waiting_writers(child.id()).is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("its pipe fills up");
        let found = stalled(&path).await;
        drop(unread);
        child.wait().expect("ended");
        let (command, why) = ("yes".to_owned(), Standstill::WaitsToWrite);
        assert_eq!(found, [StalledReader { pid: child.id(), command, why }]);
    }

    /// A process that writes faster than its reader reads waits most of the time, but is not stalled.
    #[tokio::test]
    async fn a_process_that_somebody_reads_slowly_is_not_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let (ours, _theirs) = connected(&path);
        let (mut slow, output) = std::io::pipe().expect("a pipe");
        let mut child =
            Command::new("yes").stdin(OwnedFd::from(ours)).stdout(output).spawn().expect("it runs");
        let waiting = async {
            while process::waiting_writers(child.id()).is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("its pipe fills up");
        let reading = async {
            loop {
                io::Read::read_exact(&mut slow, &mut [0; 16 << 10]).expect("it goes on");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let found = tokio::select! {
            found = stalled(&path) => found,
            never = reading => never,
        };
        drop(slow);
        child.wait().expect("ended");
        assert_eq!(found, []);
    }

    fn connected(path: &Path) -> (UnixStream, UnixStream) {
        let listener = UnixListener::bind(path).expect("bound");
        let ours = UnixStream::connect(path).expect("connected");
        (ours, listener.accept().expect("accepted").0)
    }

    #[test]
    fn nonsense_from_the_kernel_upsets_nobody() {
        for length in 0..40 {
            let mut peers = BTreeSet::new();
            read_answer(&vec![0xff; length], Path::new("/x"), &mut peers);
            read_answer(&vec![0x14; length], Path::new("/x"), &mut peers);
            assert!(peers.is_empty());
        }
    }
}
