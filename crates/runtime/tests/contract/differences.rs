//! Where runtimes are known to differ from the contract. The same list is in `docs/runtime.md`.

/// A runtime that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Embedded,
    Containerd2,
    Containerd16,
}

/// A case that a runtime does not pass, and how it answers instead.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) runtime: Runtime,
    pub(crate) case: &'static str,
    pub(crate) how: &'static str,
    pub(crate) shows: Shows,
}

/// Whether a difference is there each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    Always,
    /// It depends on who wins a race inside the runtime.
    Sometimes,
}

const ALL: &[Difference] = &[
    Difference {
        runtime: Runtime::Containerd2,
        case: "events_tell_of_a_failed_start",
        how: "a container that cannot be started goes to EXITED without an event",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd2,
        case: "streaming_lists_equal_the_plain_ones",
        how: "the streaming lists are not implemented before 2.4",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd2,
        case: "a_deleted_sandbox_is_not_listed_any_more",
        how: "the DELETED event of a sandbox is sent before the sandbox is removed",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "stopping_what_is_not_there_is_fine",
        how: "StopPodSandbox of an unknown sandbox answers NotFound",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "events_tell_the_whole_life",
        how: "GetContainerEvents is not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "events_go_to_every_subscriber",
        how: "GetContainerEvents is not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "events_tell_of_a_failed_start",
        how: "GetContainerEvents is not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "a_deleted_sandbox_is_not_listed_any_more",
        how: "GetContainerEvents is not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "streaming_lists_equal_the_plain_ones",
        how: "the streaming lists are not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "the_runtime_config_names_the_cgroup_driver",
        how: "RuntimeConfig is not implemented",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "a_recursively_read_only_volume_stays_so",
        how: "what is mounted in such a volume can be written to",
        shows: Shows::Always,
    },
    Difference {
        runtime: Runtime::Containerd16,
        case: "out_of_memory_is_told",
        how: "the reason is `Error` if the end was seen before the shortage of memory, at times for good",
        shows: Shows::Sometimes,
    },
];

pub(crate) fn find(runtime: Runtime, case: &str) -> Option<&'static Difference> {
    ALL.iter().find(|difference| difference.runtime == runtime && difference.case == case)
}
