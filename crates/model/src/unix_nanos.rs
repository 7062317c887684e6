//! Wall-clock moments as runtimes report them.

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970, by the clock of whoever said it.
///
/// For display only. It jumps when the clock is set, and runtimes send garbage in it (a negative
/// `created_at` of the year 1754 is common), so no decision may rest on its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixNanos(pub i64);

impl UnixNanos {
    /// Whether it can be a real moment: protocol zero and negative garbage mean "not told".
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.0 > 0
    }
}
