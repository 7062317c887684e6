//! The arithmetic of graceful ends, in whole seconds.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

/// The least time that a container gets between the stop signal and the kill, in seconds.
const LEAST_STOP: u64 = 2;

/// Why one container is ended while its pod keeps running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KillReason {
    StartupProbe,
    LivenessProbe,
    FailedPostStartHook,
    RestartAllContainers,
    /// The runtime does not know its state.
    Unknown,
    /// Its definition changed.
    Changed,
    /// It must be restarted for other resources.
    Resized,
    /// It is not in the pod's spec, or an older one of its name still runs.
    Stray,
    /// The whole pod ends.
    PodEnds,
}

/// Returns how long a pod that ends may take: the shortest of what was granted before, what its deletion grants and
/// what the order to end it grants; if there are none of these, what its spec says. At least a second.
pub(crate) fn pod_grace(granted: Option<u64>, pod: &Pod, asked: Option<u64>) -> u64 {
    let of_deletion = pod.metadata.deletion_grace_period_seconds.map(seconds);
    let of_spec = || {
        let spec = pod.spec.as_ref()?;
        spec.termination_grace_period_seconds.map(seconds)
    };
    let shortest = [granted, of_deletion, asked].into_iter().flatten().min();
    shortest.or_else(of_spec).unwrap_or(0).max(1)
}

/// Returns how long one container may take to end, if the end of its pod does not say.
pub(crate) fn container_grace(pod: &Pod, container: Option<&Container>, reason: KillReason) -> u64 {
    if let Some(of_deletion) = pod.metadata.deletion_grace_period_seconds {
        return seconds(of_deletion);
    }
    let Some(of_spec) = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds) else {
        return LEAST_STOP;
    };
    let probe = container.and_then(|container| match reason {
        KillReason::StartupProbe => container.startup_probe.as_ref(),
        KillReason::LivenessProbe => container.liveness_probe.as_ref(),
        _ => None,
    });
    seconds(probe.and_then(|probe| probe.termination_grace_period_seconds).unwrap_or(of_spec))
}

/// Returns what is left of a grace period after something took a while: only whole seconds count.
pub(crate) fn left(grace: u64, elapsed: Duration) -> u64 {
    grace.saturating_sub(elapsed.as_secs())
}

/// Returns the stop timeout for the runtime.
pub(crate) fn stop_timeout(grace: u64) -> Duration {
    Duration::from_secs(grace.max(LEAST_STOP))
}

fn seconds(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSpec, Probe};
    use proptest::prelude::*;

    use super::*;

    fn pod(spec: Option<i64>, deletion: Option<i64>) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec { termination_grace_period_seconds: spec, ..PodSpec::default() }),
            ..Pod::default()
        };
        pod.metadata.deletion_grace_period_seconds = deletion;
        pod
    }

    #[test]
    fn the_shortest_grace_wins_and_is_at_least_a_second() {
        // spec, deletion, asked, granted before → grace
        let table = [
            (Some(30), None, None, None, 30),
            (Some(30), Some(5), None, None, 5),
            (Some(30), Some(60), None, None, 60),
            (Some(30), Some(5), Some(2), None, 2),
            (Some(30), Some(0), None, None, 1),
            (Some(30), None, Some(0), None, 1),
            (Some(30), None, Some(60), None, 60),
            (Some(30), None, None, Some(7), 7),
            (Some(30), Some(60), Some(50), Some(7), 7),
            (None, None, None, None, 1),
        ];
        for (spec, deletion, asked, granted, wanted) in table {
            let got = pod_grace(granted, &pod(spec, deletion), asked);
            assert_eq!(got, wanted, "{spec:?} {deletion:?} {asked:?} {granted:?}");
        }
    }

    proptest! {
        #[test]
        fn a_grace_once_granted_never_grows(
            spec in prop::option::of(0i64..100),
            asks in prop::collection::vec((prop::option::of(0i64..100), prop::option::of(0u64..100)), 1..8),
        ) {
            let mut granted = None;
            for (deletion, asked) in asks {
                let next = pod_grace(granted, &pod(spec, deletion), asked);
                prop_assert!(granted.is_none_or(|granted| next <= granted));
                granted = Some(next);
            }
        }
    }

    #[test]
    fn the_base_of_one_container_follows_deletion_then_probe_then_spec() {
        let probe = |grace| Some(Probe { termination_grace_period_seconds: grace, ..Probe::default() });
        let container =
            Container { liveness_probe: probe(Some(5)), startup_probe: probe(None), ..Container::default() };
        let table = [
            (pod(Some(30), None), KillReason::Changed, 30),
            (pod(Some(30), None), KillReason::LivenessProbe, 5),
            (pod(Some(30), None), KillReason::StartupProbe, 30),
            (pod(Some(30), Some(10)), KillReason::LivenessProbe, 10),
            (pod(None, None), KillReason::LivenessProbe, 2),
        ];
        let started = Container { startup_probe: probe(Some(7)), ..container.clone() };
        for (reason, wanted) in [(KillReason::StartupProbe, 7), (KillReason::LivenessProbe, 5)] {
            assert_eq!(container_grace(&pod(Some(30), None), Some(&started), reason), wanted, "{reason:?}");
        }
        for (pod, reason, wanted) in table {
            assert_eq!(container_grace(&pod, Some(&container), reason), wanted, "{reason:?}");
        }
    }

    #[test]
    fn hooks_and_waiting_eat_whole_seconds_and_two_are_always_left() {
        // grace, milliseconds that the hook took → the runtime's timeout
        let table = [(30, 0, 30), (30, 12_700, 18), (30, 30_000, 2), (1, 0, 2), (0, 0, 2), (30, 20_000, 10)];
        for (grace, took, wanted) in table {
            let left = left(grace, Duration::from_millis(took));
            assert_eq!(stop_timeout(left), Duration::from_secs(wanted), "{grace} {took}");
        }
    }
}
