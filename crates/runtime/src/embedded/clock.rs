//! The wall clock, for display only: when something was created, started, finished, or written to a log.
//!
//! No decision depends on it. The shim has no async runtime, so this is the one place that asks the standard library.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "wall-clock time for display; shared with the shim, which has no tokio"
)]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Formats the timestamp of a log line: `2026-01-02T03:04:05.000000006Z`.
pub(crate) fn rfc3339_nanos(unix_nanos: i64) -> String {
    let secs = unix_nanos.div_euclid(1_000_000_000);
    let nanos = unix_nanos.rem_euclid(1_000_000_000);
    let (days, second_of_day) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Proleptic Gregorian date of a day number counted from 1970-01-01, by counting in 400-year eras that start in March.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_nine_digits_and_the_right_date() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800_123_456_789, "2000-03-01T00:00:00.123456789Z"),
            (1_735_689_599_999_999_999, "2024-12-31T23:59:59.999999999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
        ];
        for (nanos, text) in cases {
            assert_eq!(rfc3339_nanos(nanos), text);
        }
    }
}
