//! How long a call may take, and other choices of a client.

use std::time::Duration;

/// How a client behaves. The defaults suit a node agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How long a call may take that has no rule of its own: 2 minutes, the kubelet's `runtimeRequestTimeout`.
    pub call_timeout: Duration,
    /// How long it may take to answer a question about one thing (version, status of the runtime, of a sandbox, of
    /// a container): 10 seconds. Runtimes answer these from memory; one that does not is worth knowing about early.
    pub inspect_timeout: Duration,
    /// How long a runtime may take to accept a connection and to greet: 5 seconds.
    pub connect_timeout: Duration,
    /// The largest answer that is accepted, in bytes: 128 MiB, more than any known runtime sends.
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
