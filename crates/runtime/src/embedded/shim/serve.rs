//! The shim's main loop.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};

use super::client::{Client, take_lines};
use super::commands::Commands;
use super::join::Host;
use super::line_log::{Lines, LogFile};
use super::protocol::{Command, Outcome, Progress, Report};
use super::reap::Reaped;
use super::settings::{Payload, Settings};
use super::starved::{self, Failed};
use crate::embedded::cgroup::Cgroups;
use crate::embedded::clock;
use crate::embedded::container::SPEC;
use crate::embedded::error::{Error, Result};
use crate::embedded::process;
use crate::embedded::state::{Cause, Exit};
use crate::embedded::store::{self, Durability};

/// Entry point, in the container's folder, with the listening socket as standard input.
pub(super) fn main() -> Result<()> {
    let settings = Settings::read()?;
    process::allow_open_files(settings.open_files);
    // The container is killed with the shim. The helper sets the container's own score, and a command its own.
    process::outlast_others();
    // Whoever started the runtime may have left descriptors open, which the container's commands must not get.
    process::close_all(process::beyond_streams());
    // As with other runtimes, whatever the inherited umask is: folders that lead to volumes are for all users.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // A session of its own, so that a terminal or a service manager that ends the runtime's group does not reach us.
    let _ = rustix::process::setsid();
    // Orphans of the container become children of the shim.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| Error::io("become the parent of orphans", errno))?;
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        signals.add(signal);
    }
    signals.thread_block().map_err(|errno| Error::io("block signals", errno))?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|errno| Error::io("watch signals", errno))?;

    let listener = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|errno| Error::io("take over the socket", errno))?;
    let listener = UnixListener::from(listener);
    listener.set_nonblocking(true).map_err(|error| Error::io("set up the socket", error))?;

    let mut shim = Shim::begin(settings, listener);
    while !shim.done() {
        shim.turn(&signals);
    }
    shim.end();
    Ok(())
}

/// How much of a stream is read before everything else gets its turn.
const MAX_TURN: usize = 256 << 10;
/// The largest pipe that a container without capabilities can create.
const MAX_PIPE: usize = 1 << 20;

/// One output stream of the container.
struct Stream {
    pipe: OwnedFd,
    lines: Lines,
}

/// The process that builds the container.
struct Helper {
    /// Also the id of its process group.
    pid: i32,
    pipe: std::fs::File,
    said: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// The helper is working.
    Starting,
    /// The program is running.
    Running { started_at: i64 },
    /// The program has ended, or never started.
    Ended(Exit),
}

impl Phase {
    /// Returns when the program started, if it did. A client that connects after the end gets this as well, or it would
    /// conclude that the container could not be started.
    fn started_at(&self) -> Option<i64> {
        match self {
            Self::Running { started_at } => Some(*started_at),
            Self::Ended(exit) if exit.cause == Cause::Ended => Some(exit.started_at),
            Self::Starting | Self::Ended(_) => None,
        }
    }
}

struct Shim {
    settings: Settings,
    cgroups: Cgroups,
    phase: Phase,
    /// A kill was requested before there was anything to kill; it is carried out as soon as there is.
    doomed: bool,
    pid: Option<i32>,
    reaped: Reaped,
    log: LogFile,
    streams: Vec<Stream>,
    /// `None` once it has reported everything.
    helper: Option<Helper>,
    /// Kept open so that a reader of standard input waits.
    _stdin: Option<OwnedFd>,
    listener: UnixListener,
    clients: BTreeMap<i32, Client>,
    commands: Commands,
    buffer: Vec<u8>,
}

impl Shim {
    fn begin(settings: Settings, listener: UnixListener) -> Self {
        let mut shim = Self {
            cgroups: Cgroups::detect(),
            phase: Phase::Starting,
            doomed: false,
            pid: None,
            reaped: Reaped::default(),
            log: LogFile::open(None).unwrap_or_else(|_| unreachable!("no file is opened")),
            streams: Vec::new(),
            helper: None,
            _stdin: None,
            listener,
            clients: BTreeMap::new(),
            commands: Commands::default(),
            buffer: vec![0; 16 * 1024],
            settings,
        };
        if let Err(error) = shim.launch() {
            shim.fail(&error.to_string());
        }
        shim
    }

    fn launch(&mut self) -> Result<()> {
        // The container and its commands must not get the keys of whoever started the runtime, or of other containers.
        process::leave_session_keyring()?;
        self.log = LogFile::open(self.settings.log_path.clone()).map_err(|error| {
            let path = self.settings.log_path.clone().unwrap_or_default();
            Error::io(format!("open the log {}", path.display()), error)
        })?;
        let make_pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::io("make a pipe", errno));
        let (out, out_end) = make_pipe()?;
        let (err, err_end) = make_pipe()?;
        let (helper, helper_end) = make_pipe()?;
        for pipe in [&out, &err, &helper] {
            fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|errno| Error::io("set up a pipe", errno))?;
        }
        let stdin = if self.settings.stdin {
            let (stdin, stdin_end) = make_pipe()?;
            self._stdin = Some(stdin_end);
            Stdio::from(stdin)
        } else {
            Stdio::null()
        };
        // The only descriptor that the helper gets besides its streams.
        rustix::io::fcntl_setfd(&helper_end, rustix::io::FdFlags::empty())
            .map_err(|errno| Error::io("set up a pipe", errno))?;
        // A pause process never becomes another program: the pod sees it under this name.
        let name = match self.settings.payload {
            Payload::Program(_) => "rubelet-shim",
            Payload::Pause => "/pause",
        };
        let child = Process::new("/proc/self/exe")
            .process_group(0)
            .arg0(name)
            .args([super::CREATE, &helper_end.as_raw_fd().to_string()])
            .stdin(stdin)
            .stdout(Stdio::from(out_end))
            .stderr(Stdio::from(err_end))
            .env_clear()
            .spawn()
            .map_err(|error| Error::io("run the helper", error))?;
        self.streams = vec![
            Stream { pipe: out, lines: Lines::new("stdout") },
            Stream { pipe: err, lines: Lines::new("stderr") },
        ];
        self.helper = Some(Helper { pid: child.id().cast_signed(), pipe: helper.into(), said: Vec::new() });
        Ok(())
    }

    fn done(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Waits for something to happen, and handles it.
    fn turn(&mut self, signals: &SignalFd) {
        let ready = {
            let mut fds = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN));
            fds.extend(
                self.streams
                    .iter()
                    .map(|stream| PollFd::from_borrowed_fd(stream.pipe.as_fd(), PollFlags::IN)),
            );
            fds.extend(
                self.helper.iter().map(|helper| PollFd::from_borrowed_fd(helper.pipe.as_fd(), PollFlags::IN)),
            );
            fds.extend(
                self.clients.values().map(|c| PollFd::from_borrowed_fd(c.socket.as_fd(), PollFlags::IN)),
            );
            fds.extend(self.commands.to_watch());
            match poll(&mut fds, None) {
                Ok(_) => fds.iter().any(|fd| !fd.revents().is_empty()),
                Err(_) => false,
            }
        };
        if !ready {
            return;
        }
        // Everything is non-blocking, so all of it can be tried; this runs only when something is ready.
        while let Ok(Some(_)) = signals.read_signal() {}
        self.read_streams(MAX_TURN);
        self.read_helper();
        self.reaped.collect(|pid, code| self.commands.ended(pid, code));
        if let (Phase::Running { started_at }, Some(code)) = (&self.phase, self.reaped.watched()) {
            let started_at = *started_at;
            self.ended(code, started_at);
            return;
        }
        self.commands.drop_abandoned();
        self.accept();
        self.read_clients();
    }

    /// Reads what the container has written, up to a limit per stream: a program that writes faster than we read must
    /// not keep us from everything else.
    fn read_streams(&mut self, most: usize) {
        let now = clock::now();
        let (buffer, log) = (&mut self.buffer, &mut self.log);
        let mut out = Vec::new();
        self.streams.retain_mut(|stream| {
            let mut taken = 0;
            while taken < most {
                match rustix::io::read(&stream.pipe, &mut buffer[..]) {
                    Ok(0) => {
                        stream.lines.finish(now, &mut out);
                        return false;
                    }
                    Ok(len) => {
                        taken += len;
                        stream.lines.push(&buffer[..len], now, &mut out);
                        log.write(&out);
                        out.clear();
                    }
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return true,
                }
            }
            true
        });
        log.write(&out);
    }

    fn read_helper(&mut self) {
        let Some(Helper { pipe, said, .. }) = &mut self.helper else { return };
        let mut finished = false;
        let mut chunk = [0; 1024];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => {
                    finished = true;
                    break;
                }
                Ok(len) => said.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let lines = take_lines(said);
        for progress in lines.iter().filter_map(|line| Progress::parse(line)) {
            match progress {
                Progress::Created(pid) => {
                    self.pid = Some(pid);
                    self.reaped.watch(pid);
                    if self.doomed {
                        self.kill_all();
                    }
                }
                Progress::Started => self.started(),
                Progress::Failed(message) => self.fail(&message),
            }
        }
        if finished {
            self.helper = None;
            if self.phase == Phase::Starting {
                self.fail("the helper that creates containers exited without a message");
            }
        }
    }

    fn started(&mut self) {
        let Some(pid) = self.pid else { return };
        let at = clock::now();
        self.phase = Phase::Running { started_at: at };
        for client in self.clients.values_mut() {
            let _ = client.socket.write_all(Report::Started { pid, at }.line().as_bytes());
        }
        // From here on there is nothing to do but wait.
        crate::memory::map_only_what_is_touched();
        crate::memory::give_back_file_pages();
    }

    fn fail(&mut self, message: &str) {
        // Whatever was killed until now was not killed by us.
        self.reaped.collect(|_, _| ());
        let helper = self.helper.as_ref().map(|helper| helper.pid);
        let failed = Failed {
            message,
            was_killed: !self.doomed && self.reaped.has_killed(helper),
            spec: &store::read_json(Path::new(SPEC)).ok().flatten().unwrap_or_default(),
            cgroups: &self.cgroups,
            group: &self.settings.cgroup,
        };
        let message = starved::explain(&failed);
        self.kill_all();
        self.reaped.wait();
        self.read_streams(MAX_PIPE);
        self.phase = Phase::Ended(Exit::start_failed(message, clock::now()));
    }

    fn ended(&mut self, code: i32, started_at: i64) {
        let finished_at = clock::now();
        if !self.settings.own_pid_namespace {
            self.cgroups.kill(&self.settings.cgroup);
        }
        self.commands.end_all();
        // All writers are gone, or about to be: what is in the pipes is all there is.
        self.read_streams(MAX_PIPE);
        let (now, mut out) = (clock::now(), Vec::new());
        for stream in &mut self.streams {
            stream.lines.finish(now, &mut out);
        }
        self.log.write(&out);
        let oom = self.cgroups.oom_kills(&self.settings.cgroup) > 0;
        self.phase = Phase::Ended(Exit { code, cause: Cause::Ended, oom, started_at, finished_at });
    }

    /// Writes the exit to disk, reports it, and cleans up.
    fn end(&mut self) {
        let Phase::Ended(exit) = &self.phase else { return };
        // If this fails, only a runtime that is connected now learns of the end; a later one reports it as lost, which
        // is then the truth.
        let _ = store::write_json(Path::new(store::EXIT), exit, Durability::Power);
        let report = Report::Ended(Some(exit.clone()));
        self.accept();
        for client in self.clients.values_mut() {
            let _ = client.socket.write_all(report.line().as_bytes());
        }
        self.cgroups.remove(&self.settings.cgroup);
    }

    fn kill_all(&mut self) {
        self.doomed = true;
        if let (Some(pid), None) = (self.pid, self.reaped.watched()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        // The helper may be waiting for a disk that does not respond, while the container does not exist yet.
        if let (Phase::Starting, Some(helper)) = (&self.phase, &self.helper) {
            let _ = killpg(Pid::from_raw(helper.pid), Signal::SIGKILL);
        }
        self.cgroups.kill(&self.settings.cgroup);
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            // Reports fit into any socket buffer; a peer that does not read must not block us.
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let mut client = Client::new(socket);
            if let (Some(at), Some(pid)) = (self.phase.started_at(), self.pid) {
                let _ = client.socket.write_all(Report::Started { pid, at }.line().as_bytes());
            }
            self.clients.insert(client.socket.as_raw_fd(), client);
        }
    }

    fn read_clients(&mut self) {
        let mut requests = Vec::new();
        self.clients.retain(|fd, client| match client.read() {
            Some(lines) => {
                requests.extend(lines.into_iter().map(|line| (*fd, line)));
                true
            }
            None => false,
        });
        for (fd, line) in requests {
            if Command::parse(&line) == Some(Command::Exec) {
                self.run_command(fd);
                continue;
            }
            let answer = match self.obey(&line) {
                Ok(()) => "ok\n".to_owned(),
                Err(error) => format!("error {error}\n"),
            };
            if let Some(client) = self.clients.get_mut(&fd) {
                let _ = client.socket.write_all(answer.as_bytes());
            }
        }
    }

    /// Starts a command, which takes over the connection.
    fn run_command(&mut self, fd: i32) {
        let Some(mut client) = self.clients.remove(&fd) else { return };
        match (&self.phase, self.pid) {
            (Phase::Running { .. }, Some(pid)) if !self.doomed => {
                let host = Host { settings: &self.settings, cgroups: &self.cgroups, pid };
                self.commands.begin(client.socket, client.files, &host);
            }
            _ => {
                let outcome = Outcome::Failed("the container is not running".to_owned());
                let _ = client.socket.write_all(outcome.line().as_bytes());
            }
        }
    }

    fn obey(&mut self, line: &str) -> Result<()> {
        match Command::parse(line) {
            Some(Command::Signal(number)) => {
                let signal = Signal::try_from(number).ok();
                if let (Some(pid), None) = (self.pid, self.reaped.watched()) {
                    // Not reaped yet, so the pid still belongs to this process.
                    match signal {
                        Some(signal) => kill(Pid::from_raw(pid), signal),
                        None => crate::embedded::process::kill_raw(pid, number),
                    }
                    .map_err(|errno| Error::io("send a signal", errno))?;
                }
                Ok(())
            }
            Some(Command::Kill) => {
                self.kill_all();
                Ok(())
            }
            Some(Command::Reopen) => self.log.reopen().map_err(|error| Error::io("reopen the log", error)),
            Some(Command::Exec) | None => Err(Error::invalid("request", "not understood")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_hears_that_it_began_though_it_has_ended() {
        let ended = |cause| Exit { code: 0, cause, oom: false, started_at: 7, finished_at: 9 };
        for (phase, wanted) in [
            (Phase::Starting, None),
            (Phase::Running { started_at: 7 }, Some(7)),
            (Phase::Ended(ended(Cause::Ended)), Some(7)),
            (Phase::Ended(ended(Cause::StartFailed("why".to_owned()))), None),
        ] {
            assert_eq!(phase.started_at(), wanted, "{phase:?}");
        }
    }
}
