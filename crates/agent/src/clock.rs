//! The time of day, for what people read.

use jiff::Timestamp;

/// The time it is.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0)).unwrap_or_default()
}
