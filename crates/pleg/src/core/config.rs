//! How a PLEG behaves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a PLEG behaves. The defaults are the kubelet's where it has one.
///
/// ```
/// let mut config = pleg::Config::default();
/// config.follow_events = false;
/// ```
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Config {
    /// From the end of one list of all pods to the start of the next: a second, and never less than a tenth of one.
    pub relist_period: Duration,
    /// The longest that it may become while the runtime announces every change: a minute. Less than `relist_period` is
    /// `relist_period`.
    pub longest_period: Duration,
    /// Whether to follow what the runtime announces.
    pub follow_events: bool,
    /// Without a successful list for longer than this, the PLEG is not healthy: 3 minutes.
    pub relist_threshold: Duration,
    /// How many pods are inspected at the same time: 16, and never less than one.
    pub inspect_limit: usize,
    /// An inspection that takes longer than this is slow: it no longer counts towards `inspect_limit`. A second.
    pub slow_after: Duration,
    /// How many slow inspections may be under way on top of `inspect_limit`: 64.
    pub slow_limit: usize,
    /// How many pods are looked at singly; if more are asked for, all pods are listed instead. 16.
    pub look_limit: usize,
    /// How long a pod in which something came or started is not looked at for that alone. Who starts it and asks when that
    /// is done is spared the looks in between. Ends are looked at at once. None by default.
    #[serde(default)]
    pub start_patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            relist_period: Duration::from_secs(1),
            longest_period: Duration::from_secs(60),
            follow_events: true,
            relist_threshold: Duration::from_secs(180),
            inspect_limit: 16,
            slow_after: Duration::from_secs(1),
            slow_limit: 64,
            look_limit: 16,
            start_patience: Duration::ZERO,
        }
    }
}
