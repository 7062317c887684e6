//! Lengths of time on the command line, as kubectl takes them: `60s`, `2m30s`, `1.5h`, `250ms`.

use std::time::Duration;

/// Reads one.
///
/// # Errors
///
/// What is wrong with it, and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is no length of time: give numbers with units (ms, s, m, h), as in 60s or 2m30s")
    };
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number * unit;
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
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
        for text in ["", "60", "s", "1d", "-1s", "1s2", "1e9s", "ten s"] {
            assert!(parse(text).unwrap_err().contains("as in 60s"), "{text}");
        }
    }
}
