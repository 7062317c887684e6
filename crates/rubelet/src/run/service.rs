//! Notifications for a service manager, in the protocol of `sd_notify(3)`: one datagram per message. Sending never
//! waits for the manager, and without a manager nothing is sent.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rubelet_agent::board::PodView;
use rubelet_agent::sync_loop::{AgentHandle, Readiness};
use tokio::time::sleep;

use crate::clean::clean;
use crate::http::not_known_yet;
use crate::summary::{Mood, Summary};

/// The minimum time between two status messages.
const PAUSE: Duration = Duration::from_secs(1);

/// The service manager that started this process and wants to be notified. Usually there is none.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The watchdog timeout: the manager ends this process if it gets no sign of life for this long.
    patience: Option<Duration>,
}

/// The environment names a socket that cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot report the agent's state to the service manager: NOTIFY_SOCKET={}: {source}", .name.display())]
pub(super) struct NoManager {
    name: OsString,
    source: io::Error,
}

impl ServiceManager {
    /// Returns the manager that the environment names, if any. Containers and their shims do not inherit this
    /// environment.
    pub(super) fn of_environment() -> Result<Self, NoManager> {
        let number = |name: &str| std::env::var(name).ok()?.parse().ok();
        let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let patience = number("WATCHDOG_USEC").filter(|_| is_for_us).map(Duration::from_micros);
        match std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) {
            None => Ok(Self::default()),
            Some(name) => Self::at(&name, patience).map_err(|source| NoManager { name, source }),
        }
    }

    /// Returns the manager at this socket: a path, or, with a leading `@`, an abstract name that is in no folder.
    fn at(name: &OsStr, patience: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes().split_first() {
            Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
            Some((b'/', _)) => SocketAddr::from_pathname(name)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "neither a path nor an abstract socket",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect_addr(&address)?;
        Ok(Self { socket: Some(socket), patience: patience.filter(|patience| !patience.is_zero()) })
    }

    /// Reports that the agent is ready: it answers, and manages pods. Sources may take long to be read (a URL that is
    /// down, say); the status then says so, but that is no reason to restart the agent.
    pub(super) fn begun(&self) {
        self.tell("READY=1");
    }

    /// Reports that the agent is ending.
    pub(super) fn ending(&self) {
        self.tell("STOPPING=1");
    }

    /// Reports the agent's state in words.
    pub(super) fn status(&self, words: &str) {
        self.tell(&format!("STATUS={}", clean(words)));
    }

    /// Sends a sign of life while the agent is healthy, and a status whenever the state of pods has changed.
    pub(super) async fn keep_informed(&self, agent: &AgentHandle) -> Infallible {
        let is_alive = || agent.pulse().check().is_ok();
        tokio::select! {
            never = self.feed(is_alive) => never,
            never = self.tell_changes(agent) => never,
        }
    }

    /// Feeds the watchdog twice as often as required, so that one late message does no harm.
    async fn feed(&self, is_alive: impl Fn() -> bool) -> Infallible {
        let Some(patience) = self.patience else { return std::future::pending().await };
        loop {
            // If the agent's loop hangs, the manager is to end this process.
            if is_alive() {
                self.tell("WATCHDOG=1");
            }
            sleep(patience / 2).await;
        }
    }

    async fn tell_changes(&self, agent: &AgentHandle) -> Infallible {
        let (mut ready, mut changes) = (agent.ready(), agent.board().changes());
        let mut told = String::new();
        while self.socket.is_some() {
            changes.mark_unchanged();
            let (now, all) = (ready.borrow_and_update().clone(), agent.board().all());
            let words = how_it_is(&now, all.iter().map(|view| &**view));
            if words != told {
                self.status(&words);
                told = words;
            }
            sleep(PAUSE).await;
            let changed = tokio::select! {
                changed = ready.changed() => changed,
                changed = changes.changed() => changed,
            };
            if changed.is_err() {
                break;
            }
        }
        std::future::pending().await
    }

    fn tell(&self, news: &str) {
        // A manager that is gone, or that has not read for long, gets the next message.
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(news.as_bytes())
        {
            tracing::debug!(%error, news, "cannot notify the service manager");
        }
    }
}

/// Says what is not known yet, or else how many pods there are in which state.
fn how_it_is<'a>(ready: &Readiness, pods: impl Iterator<Item = &'a PodView>) -> String {
    if let Some(unknown) = not_known_yet(ready.was_surveyed, &ready.unheard) {
        return unknown;
    }
    let moods: Vec<Mood> = pods.map(|view| Summary::of_view(view).mood).collect();
    let parts = Mood::WORDS.map(|(mood, word)| (moods.iter().filter(|one| **one == mood).count(), word));
    let parts =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    match moods.len() {
        0 => "no pods".to_owned(),
        1 => format!("1 pod: {}", parts.collect::<String>()),
        many => format!("{many} pods: {}", parts.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{Pod, PodStatus};
    use rubelet_agent::board::Stage;

    use super::*;

    /// All messages so far.
    fn told(listening: &UnixDatagram) -> Vec<String> {
        listening.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1024];
        std::iter::from_fn(|| {
            let length = listening.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
        })
        .collect()
    }

    #[test]
    fn news_come_by_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("rubelet-{}-notify", std::process::id());
        let in_folder = (path.clone().into_os_string(), SocketAddr::from_pathname(&path).unwrap());
        let in_no_folder = (format!("@{name}").into(), SocketAddr::from_abstract_name(&name).unwrap());
        for (name, address) in [in_folder, in_no_folder] {
            let listening = UnixDatagram::bind_addr(&address).unwrap();
            let manager = ServiceManager::at(&name, None).unwrap();
            manager.begun();
            manager.status("one\nREADY=0");
            manager.ending();
            assert_eq!(told(&listening), ["READY=1", "STATUS=one READY=0", "STOPPING=1"], "{name:?}");
            drop(listening);
            manager.status("nobody hears this, and nobody minds");
        }
        for name in ["vsock:2:1", "relative", "/no/such/socket"] {
            assert!(ServiceManager::at(name.as_ref(), None).is_err(), "{name}");
        }
        ServiceManager::default().begun();
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_not_fed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listening = UnixDatagram::bind(&path).unwrap();
        let patience = Duration::from_secs(60);
        let manager = ServiceManager::at(path.as_os_str(), Some(patience)).unwrap();
        let is_alive = Cell::new(true);
        let feeding = async {
            for (alive, wanted) in [(true, 4), (false, 0), (true, 4)] {
                is_alive.set(alive);
                sleep(patience * 2).await;
                let fed = told(&listening);
                assert!(fed.iter().all(|news| news == "WATCHDOG=1"), "{fed:?}");
                assert!(fed.len().abs_diff(wanted) <= 1, "{fed:?}");
            }
        };
        tokio::select! {
            () = feeding => {}
            never = manager.feed(|| is_alive.get()) => match never {},
        }
    }

    #[test]
    fn what_is_not_known_comes_before_how_pods_are() {
        let view = |phase: &str| PodView {
            pod: Arc::new(Pod::default()),
            source: None,
            status: PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() },
            version: 1,
            stage: Stage::Syncing,
            events: Vec::new(),
        };
        let pods = ["Running", "Running", "Failed", "Pending"].map(view);
        let mut ready = Readiness { was_surveyed: false, unheard: Vec::new() };
        assert!(how_it_is(&ready, pods.iter()).contains("pods on this machine have not been listed"));
        ready.was_surveyed = true;
        assert_eq!(how_it_is(&ready, pods.iter()), "4 pods: 2 ok, 1 in progress, 1 in trouble");
        assert_eq!(how_it_is(&ready, pods[..1].iter()), "1 pod: 1 ok");
        assert_eq!(how_it_is(&ready, [].iter()), "no pods");
    }
}
