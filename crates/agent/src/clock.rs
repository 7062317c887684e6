//! The time of day, for human readers.

use jiff::Timestamp;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0)).unwrap_or_default()
}
