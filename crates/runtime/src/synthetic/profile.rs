//! The simulated runtimes: five profiles, each a set of quirks observed in real runtimes.

use std::fmt;
use std::str::FromStr;

/// A real runtime to behave like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// containerd 1.6: no container events at all.
    Ctd16,
    /// containerd 1.7: events come from one shared queue, so each reaches only one reader.
    Ctd17,
    /// containerd 2.x: every reader gets all events, but a stalled reader blocks the runtime.
    #[default]
    Ctd2,
    /// CRI-O as installed: the event stream opens, and ends immediately without an error.
    CrioOff,
    /// CRI-O with `enable_pod_events`.
    CrioOn,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::Ctd16, Self::Ctd17, Self::Ctd2, Self::CrioOff, Self::CrioOn];

    /// Its name on command lines and in test output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ctd16 => "ctd16",
            Self::Ctd17 => "ctd17",
            Self::Ctd2 => "ctd2",
            Self::CrioOff => "crio-off",
            Self::CrioOn => "crio-on",
        }
    }

    /// Returns its behaviour in detail. A test may change single quirks before it serves them.
    #[must_use]
    pub fn quirks(self) -> Quirks {
        match self {
            Self::Ctd16 => Quirks {
                runtime_version: "1.6.39",
                events: EventSupport::Unimplemented,
                status_has_user: false,
                always_verbose: false,
                has_runtime_config: false,
                initializing: NotReadyYet::Unknown,
                ..Quirks::containerd()
            },
            Self::Ctd17 => Quirks {
                runtime_version: "v1.7.34",
                events: EventSupport::Stream(Delivery::Shared { capacity: 1000 }),
                sandbox_deleted: SandboxDeleted::WithoutStatus,
                status_has_user: false,
                always_verbose: false,
                has_runtime_config: false,
                initializing: NotReadyYet::Unknown,
                ..Quirks::containerd()
            },
            Self::Ctd2 => Quirks::containerd(),
            Self::CrioOff => Quirks {
                events: EventSupport::EndsAtOnce,
                sandbox_extras: SandboxExtras::None,
                ..Quirks::crio()
            },
            Self::CrioOn => Quirks::crio(),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|profile| profile.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown runtime profile {text:?}; known are {known}")
        })
    }
}

/// The ways in which runtimes differ from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Quirks {
    /// The runtime's name in `Version`.
    pub runtime_name: &'static str,
    /// The runtime's version in `Version`.
    pub runtime_version: &'static str,
    /// What `GetContainerEvents` does.
    pub events: EventSupport,
    /// Whether `RunPodSandbox` announces CREATED before STARTED.
    pub sandbox_created_event: bool,
    /// How the removal of a sandbox is announced.
    pub sandbox_deleted: SandboxDeleted,
    /// Whether containers that are removed together with their sandbox are announced.
    pub deleted_with_sandbox_events: bool,
    /// Which containers an event includes.
    pub event_containers: EventContainers,
    /// What is left of a container that could not be started.
    pub failed_start: FailedStart,
    /// How an `ExecSync` that timed out is answered.
    pub exec_timeout: ExecTimeout,
    /// The result of a second creation with the same name and attempt.
    pub name_taken: NameTaken,
    /// How calls are answered while the runtime is starting.
    pub initializing: NotReadyYet,
    /// What `PodSandboxStatus` contains in addition.
    pub sandbox_extras: SandboxExtras,
    /// Whether `PodSandboxStatus` answers verbosely even when not asked to.
    pub always_verbose: bool,
    /// Whether the calls of CRI v1 exist. A runtime that only speaks v1alpha2 does not know them.
    pub speaks_v1: bool,
    /// Whether `ContainerStatus` includes the user that the container runs as.
    pub status_has_user: bool,
    /// Whether `RuntimeConfig` exists and works.
    pub has_runtime_config: bool,
    /// Whether cgroups are managed through systemd, as reported by `RuntimeConfig`.
    pub systemd_cgroups: bool,
    /// The number of entries per message of the streaming lists; `None` if the runtime does not have them.
    pub stream_lists: Option<usize>,
    /// The largest message that it sends or accepts, in bytes.
    pub max_message_bytes: usize,
}

impl Quirks {
    fn containerd() -> Self {
        Self {
            runtime_name: "containerd",
            runtime_version: "v2.3.4",
            events: EventSupport::Stream(Delivery::Blocking { buffer: 100 }),
            sandbox_created_event: true,
            sandbox_deleted: SandboxDeleted::BeforeItIsGone,
            deleted_with_sandbox_events: true,
            event_containers: EventContainers::OfSandbox,
            failed_start: FailedStart::Exits,
            exec_timeout: ExecTimeout::DeadlineExceeded,
            name_taken: NameTaken::Reserved,
            initializing: NotReadyYet::Unavailable,
            sandbox_extras: SandboxExtras::None,
            always_verbose: true,
            speaks_v1: true,
            status_has_user: true,
            has_runtime_config: true,
            systemd_cgroups: false,
            stream_lists: None,
            max_message_bytes: 16 << 20,
        }
    }

    fn crio() -> Self {
        Self {
            runtime_name: "cri-o",
            runtime_version: "1.35.0",
            events: EventSupport::Stream(Delivery::Broadcast { capacity: 1000 }),
            sandbox_created_event: false,
            sandbox_deleted: SandboxDeleted::Never,
            deleted_with_sandbox_events: false,
            event_containers: EventContainers::OfPodLabel,
            failed_start: FailedStart::Vanishes,
            exec_timeout: ExecTimeout::MinusOne,
            name_taken: NameTaken::HandedOver,
            initializing: NotReadyYet::Unavailable,
            sandbox_extras: SandboxExtras::TimestampAndContainers,
            always_verbose: false,
            speaks_v1: true,
            status_has_user: true,
            has_runtime_config: true,
            systemd_cgroups: true,
            stream_lists: None,
            max_message_bytes: 80 << 20,
        }
    }

    /// Returns whether this is a version of containerd.
    #[must_use]
    pub fn is_containerd(&self) -> bool {
        self.runtime_name == "containerd"
    }
}

/// What `GetContainerEvents` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSupport {
    /// It fails with `Unimplemented`.
    Unimplemented,
    /// The stream ends cleanly before any event: the feature is switched off.
    EndsAtOnce,
    /// It opens a stream.
    Stream(Delivery),
}

/// How events reach the readers of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One queue for all readers: each event reaches one of them. When it is full, the newest event is dropped. What
    /// was queued while nobody was reading is replayed to the first reader.
    Shared {
        /// How many events the queue holds.
        capacity: usize,
    },
    /// Every reader gets every event through a buffer of its own, and a full buffer blocks publishers. Events of the
    /// last five minutes that nobody has read are replayed to the first reader.
    Blocking {
        /// How many events each reader's buffer holds.
        buffer: usize,
    },
    /// Every reader gets every event, one reader after another. While one is stalled, events queue up, and are dropped
    /// when the queue is full. Nothing is kept for later, except before the first reader ever.
    Broadcast {
        /// How many events the queue holds.
        capacity: usize,
    },
}

/// How the removal of a sandbox is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxDeleted {
    /// Afterwards, and without a sandbox status: the event does not say which pod it was.
    WithoutStatus,
    /// While the sandbox is still listed, with a status whose `created_at` is the year 1754.
    BeforeItIsGone,
    /// It is not announced.
    Never,
}

/// Which containers an event includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventContainers {
    /// Those in the same sandbox.
    OfSandbox,
    /// Those in every sandbox of the pod, found by the label with its UID; none for a pod without that label.
    OfPodLabel,
}

/// What `PodSandboxStatus` contains in addition to the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxExtras {
    /// Nothing.
    None,
    /// A timestamp, but no containers even though there are some: containerd 2.0.0 to 2.0.2.
    Timestamp,
    /// A timestamp and the containers of the sandbox.
    TimestampAndContainers,
}

/// What is left of a container that could not be started. No event announces it in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedStart {
    /// It has exited with code 128 and reason `StartError`.
    Exits,
    /// It is removed.
    Vanishes,
}

/// How an `ExecSync` that timed out is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecTimeout {
    /// As an error of the call.
    DeadlineExceeded,
    /// As an exit code of -1 and a message on stderr.
    MinusOne,
}

/// The result of a second creation with the same name and attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTaken {
    /// An error: the name is reserved.
    Reserved,
    /// The first one, if its creator never received the answer; otherwise an error.
    HandedOver,
}

/// How calls are answered while the runtime is starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReadyYet {
    /// `Unknown`.
    Unknown,
    /// `Unavailable`.
    Unavailable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for profile in Profile::ALL {
            assert_eq!(profile.name().parse::<Profile>(), Ok(profile));
        }
        assert!("docker".parse::<Profile>().unwrap_err().contains("ctd17"));
    }
}
