//! The options of a PLEG.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The options of a PLEG. Where the kubelet has an equivalent, the default is the kubelet's.
///
/// ```
/// let mut config = pleg::Config::default();
/// config.follow_events = false;
/// ```
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Config {
    /// How often all pods are listed, measured from the end of one list to the start of the next. Default: 1 s; at
    /// least 0.1 s.
    pub relist_period: Duration,
    /// The longest period between full lists while the runtime announces every change. Default: 60 s. A value below
    /// `relist_period` means `relist_period`.
    pub longest_period: Duration,
    /// Whether to follow the runtime's event stream. Default: true.
    pub follow_events: bool,
    /// The PLEG is unhealthy if no list has succeeded for longer than this. Default: 3 minutes.
    pub relist_threshold: Duration,
    /// How many pods are inspected at the same time. Default: 16; at least 1.
    pub inspect_limit: usize,
    /// An inspection that takes longer than this is *slow* and stops counting towards `inspect_limit`. Default: 1 s.
    pub slow_after: Duration,
    /// How many slow inspections may run in addition to `inspect_limit`. Default: 64; at least 1.
    pub slow_limit: usize,
    /// How many looks at single pods may run at the same time; if more are wanted, all pods are listed instead.
    /// Default: 16.
    pub look_limit: usize,
    /// How long to put off a look that was triggered only by something being created or started. A program that starts
    /// containers itself, and [nudges](crate::Handle::nudge) when it is done, saves the looks in between. Ends and
    /// removals always lead to a look at once. Default: zero.
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
