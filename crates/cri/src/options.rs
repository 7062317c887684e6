//! Time limits of calls, and other options of a client.

use std::time::Duration;

use crate::Operation;

/// The longest limit. A longer one means "for ever", and would overflow clocks.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The options of a client. The defaults suit a node agent.
///
/// ```
/// let mut options = rubelet_cri::Options::default();
/// options.inspect_timeout = std::time::Duration::from_secs(3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The time limit of calls without a more specific limit. Default: 2 minutes, as the kubelet's
    /// `runtimeRequestTimeout`.
    pub call_timeout: Duration,
    /// The time limit of calls about one thing (the runtime's version or status, the status of a sandbox or of a
    /// container). Default: 10 seconds. Runtimes answer these from memory; one that does not is worth knowing about
    /// early.
    pub inspect_timeout: Duration,
    /// How long a runtime may take to accept a connection and to greet. Default: 5 seconds.
    pub connect_timeout: Duration,
    /// The largest message that is accepted, in bytes. Default: 128 MiB, more than any known runtime sends.
    pub max_answer: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_secs(120),
            inspect_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            max_answer: 128 << 20,
        }
    }
}

impl Options {
    /// The time limit of `operation`, including the time it takes to connect; `None` if it may take as long as it
    /// likes: image pulls, event streams, and commands without a timeout.
    ///
    /// `own` is the time that the call itself grants to what it starts: the grace period of a container that is
    /// stopped, the timeout of a checkpoint or a command. It is added to the limit of such calls; others ignore it.
    #[must_use]
    pub fn limit(&self, operation: Operation, own: Duration) -> Option<Duration> {
        let limit = match operation {
            Operation::Version
            | Operation::Status
            | Operation::PodSandboxStatus
            | Operation::ContainerStatus => self.inspect_timeout,
            Operation::RunPodSandbox => self.call_timeout.saturating_mul(2),
            Operation::StopContainer | Operation::CheckpointContainer => {
                self.call_timeout.saturating_add(own)
            }
            Operation::ExecSync if own.is_zero() => return None,
            Operation::ExecSync => self.call_timeout.saturating_add(own),
            Operation::PullImage | Operation::GetContainerEvents => return None,
            _ => self.call_timeout,
        };
        Some(limit.min(LONGEST))
    }
}

/// Converts a duration to whole seconds, as the protocol requires. It is rounded up: rounded down, half a second would
/// become zero, which often means "for ever". The result is never more than a runtime can count in nanoseconds, since
/// containerd takes anything longer as zero.
pub(crate) fn whole_seconds(duration: Duration) -> i64 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i64::try_from(seconds.min(LONGEST.as_secs())).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_kubelets_except_for_inspection() {
        let options = Options::default();
        let seconds =
            |operation, own| options.limit(operation, Duration::from_secs(own)).map(|limit| limit.as_secs());
        for operation in Operation::ALL.iter().copied() {
            let (plain, with_own) = match operation {
                Operation::Version
                | Operation::Status
                | Operation::PodSandboxStatus
                | Operation::ContainerStatus => (Some(10), Some(10)),
                Operation::RunPodSandbox => (Some(240), Some(240)),
                Operation::StopContainer | Operation::CheckpointContainer => (Some(120), Some(150)),
                Operation::ExecSync => (None, Some(150)),
                Operation::PullImage | Operation::GetContainerEvents => (None, None),
                _ => (Some(120), Some(120)),
            };
            assert_eq!((seconds(operation, 0), seconds(operation, 30)), (plain, with_own), "{operation}");
        }
    }

    #[test]
    fn no_limit_overflows_a_clock() {
        let options = Options { call_timeout: Duration::MAX, ..Options::default() };
        for operation in [Operation::RunPodSandbox, Operation::StopContainer, Operation::ListImages] {
            assert_eq!(options.limit(operation, Duration::MAX), Some(LONGEST));
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        let cases = [(0, 0), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2)];
        for (nanos, seconds) in cases {
            assert_eq!(whole_seconds(Duration::from_nanos(nanos)), seconds, "{nanos} ns");
        }
        for endless in [Duration::from_secs(10_000_000_000), Duration::MAX] {
            assert_eq!(whole_seconds(endless), 10 * 365 * 24 * 3600);
        }
    }
}
