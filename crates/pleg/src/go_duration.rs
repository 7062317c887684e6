//! Durations as Go prints them, so that health messages read the same as the kubelet's.

use std::fmt;
use std::time::Duration;

/// A duration that is printed like Go's `time.Duration`: `0s`, `1.5ms`, `3m0s`, `1h2m3.4s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// Rounds down to a multiple of `step`.
    #[must_use]
    pub const fn in_steps_of(duration: Duration, step: Duration) -> Self {
        let (nanos, step) = (duration.as_nanos(), step.as_nanos());
        if step == 0 {
            return Self(duration);
        }
        let kept = nanos - nanos % step;
        Self(Duration::new((kept / 1_000_000_000) as u64, (kept % 1_000_000_000) as u32))
    }

    /// Rounds down to seconds.
    #[must_use]
    pub const fn in_seconds(duration: Duration) -> Self {
        Self::in_steps_of(duration, Duration::from_secs(1))
    }

    /// Rounds down to tenths of a second.
    #[must_use]
    pub const fn in_tenths(duration: Duration) -> Self {
        Self::in_steps_of(duration, Duration::from_millis(100))
    }

    /// Rounds down to milliseconds, which is precise enough for waiting times.
    #[must_use]
    pub const fn in_millis(duration: Duration) -> Self {
        Self::in_steps_of(duration, Duration::from_millis(1))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 1_000).and_then(|()| f.write_str("µs")),
            1_000_000..1_000_000_000 => decimal(f, nanos, 1_000_000).and_then(|()| f.write_str("ms")),
            _ => {
                let minutes = self.0.as_secs() / 60;
                match (minutes / 60, minutes % 60) {
                    (0, 0) => {}
                    (0, minutes) => write!(f, "{minutes}m")?,
                    (hours, minutes) => write!(f, "{hours}h{minutes}m")?,
                }
                decimal(f, nanos % 60_000_000_000, 1_000_000_000)?;
                f.write_str("s")
            }
        }
    }
}

/// Writes `value / unit` with as many decimals as it needs.
fn decimal(f: &mut fmt::Formatter<'_>, value: u128, unit: u128) -> fmt::Result {
    write!(f, "{}", value / unit)?;
    let rest = value % unit;
    if rest == 0 {
        return Ok(());
    }
    let digits = unit.ilog10() as usize;
    let text = format!("{rest:0digits$}");
    write!(f, ".{}", text.trim_end_matches('0'))
}

/// Serialises durations as seconds, for use with `#[serde(with = "…")]`.
pub mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Serialises a duration.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(duration.as_secs_f64())
    }

    /// Deserialises a duration.
    ///
    /// # Errors
    ///
    /// If the input is not a number, or not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        read(f64::deserialize(deserializer)?)
    }

    /// Too large a number means `Duration::MAX`, which itself is written as slightly more than it is.
    pub(super) fn read<E: serde::de::Error>(seconds: f64) -> Result<Duration, E> {
        match Duration::try_from_secs_f64(seconds) {
            Err(_) if seconds > 0.0 => Ok(Duration::MAX),
            read => read.map_err(E::custom),
        }
    }
}

/// Serialises optional durations as seconds, for use with `#[serde(with = "…")]`.
pub mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Serialises a duration, if there is one.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::seconds::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Deserialises a duration, if there is one.
    ///
    /// # Errors
    ///
    /// If there is something that is not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(deserializer)?.map(super::seconds::read).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_time_is_read_as_it_is_written() {
        let written = |duration: &Duration| {
            let text = serde_json::to_value(duration.as_secs_f64()).expect("a number");
            seconds::deserialize(text)
        };
        for duration in
            [Duration::ZERO, Duration::from_millis(1_500), Duration::from_secs(1 << 40), Duration::MAX]
        {
            assert_eq!(written(&duration).ok(), Some(duration));
        }
        for nonsense in [-1.0, f64::NEG_INFINITY, f64::NAN] {
            assert!(seconds::read::<serde_json::Error>(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn durations_read_as_in_go() {
        let rows = [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::from_nanos(1_100), "1.1µs"),
            (Duration::from_micros(2_200), "2.2ms"),
            (Duration::from_millis(3_300), "3.3s"),
            (Duration::from_secs(180), "3m0s"),
            (Duration::from_millis(192_045), "3m12.045s"),
            (Duration::from_secs(3_600), "1h0m0s"),
            (Duration::from_secs(3_723) + Duration::from_nanos(1), "1h2m3.000000001s"),
        ];
        for (duration, expected) in rows {
            assert_eq!(GoDuration(duration).to_string(), expected);
        }
    }
}
