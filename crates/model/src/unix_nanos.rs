//! Wall-clock times as runtimes report them.

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970, by the clock of whoever reported the time.
///
/// For display only: clocks jump when they are set, and runtimes send garbage (a negative `created_at` in the year 1754
/// is common), so no decision may depend on the order of such times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// Whether this can be a real time: zero and negative values mean that none was reported.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.0 > 0
    }
}
