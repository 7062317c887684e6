//! Durations on the command line, in kubectl's format: `60s`, `2m30s`, `1.5h`, `250ms`.

use std::time::Duration;

use jiff::SignedDuration;

/// Longer durations are reduced to this: a hundred years, which can still be added to a clock.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Parses a duration.
///
/// # Errors
///
/// The error says what is wrong with it, and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let length = text.parse::<SignedDuration>().ok().and_then(|length| Duration::try_from(length).ok());
    length.map(|length| length.min(LONGEST)).ok_or_else(|| {
        format!("{text:?} is not a duration: use numbers with units (ms, s, m, h), as in 60s or 2m30s")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("60s", 60_000),
            ("2m30s", 150_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("0s", 0),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse("2562047788015215h"), Ok(LONGEST), "no clock goes so far");
        for text in ["", "60", "s", "1d", "-1s", "1s2", "1e9s", "ten s"] {
            assert!(parse(text).unwrap_err().contains("as in 60s"), "{text}");
        }
    }
}
