//! Quantities of CPU, memory and the like: `500m`, `1.5Gi`, `1e3`.
//!
//! A quantity is exact to a billionth, as in the API server: finer ones are rounded up (away from zero), and those
//! larger than 2⁶³−1 are capped at that.

mod notation;
mod requirements;

use std::cmp::Ordering;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use thiserror::Error;

pub(crate) use notation::{Notation, canonical};
pub(crate) use requirements::{limit, request, written};

/// An exact quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; for example 500m, 1, 64Mi or 2G"
)]
pub struct ParseQuantityError;

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const MOST_NANOS: i128 = i64::MAX as i128 * NANOS_PER_UNIT;
/// The arithmetic does not overflow for a binary suffix times this many digits after the point.
const BINARY_FRACTION_DIGITS: usize = 11;

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Creates a whole number: bytes, cores, pieces.
    #[must_use]
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * NANOS_PER_UNIT }
    }

    /// Creates a number of thousandths: millicores.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * (NANOS_PER_UNIT / 1000) }
    }

    /// Parses the quantity in a field of a Pod.
    ///
    /// # Errors
    ///
    /// If the field does not contain a quantity. In a validated pod it always does.
    pub fn of(wire: &WireQuantity) -> Result<Self, ParseQuantityError> {
        wire.0.parse()
    }

    /// Returns whole units, rounded up.
    #[must_use]
    pub fn units(self) -> i64 {
        self.in_parts_of(NANOS_PER_UNIT)
    }

    /// Returns thousandths, rounded up.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.in_parts_of(NANOS_PER_UNIT / 1000)
    }

    /// Rounds up to whole thousandths: nothing finer is counted in lists of resources.
    #[must_use]
    pub fn to_millis(self) -> Self {
        const MILLI: i128 = NANOS_PER_UNIT / 1000;
        Self { nanos: divide_away_from_zero(self.nanos, MILLI) * MILLI }
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
    }

    /// Whether it is a whole multiple of `one`.
    #[must_use]
    pub fn is_multiple_of(self, one: Self) -> bool {
        self.nanos.checked_rem(one.nanos) == Some(0)
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is exactly zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    fn in_parts_of(self, nanos: i128) -> i64 {
        i64::try_from(divide_away_from_zero(self.nanos, nanos)).unwrap_or(match self.nanos.cmp(&0) {
            Ordering::Less => i64::MIN,
            Ordering::Equal | Ordering::Greater => i64::MAX,
        })
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: (self.nanos + other.nanos).clamp(-MOST_NANOS, MOST_NANOS) }
    }
}

impl std::iter::Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, |sum, amount| sum + amount)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(ParseQuantityError);
        }
        let nanos = match Scale::of(suffix)? {
            Scale::Ten(exponent) => decimal_nanos(whole, fraction, exponent),
            Scale::Two(exponent) => binary_nanos(whole, fraction, exponent),
        };
        let nanos = nanos.unwrap_or(MOST_NANOS).min(MOST_NANOS);
        Ok(Self { nanos: if negative { -nanos } else { nanos } })
    }
}

enum Scale {
    Ten(i32),
    Two(u32),
}

impl Scale {
    fn of(suffix: &str) -> Result<Self, ParseQuantityError> {
        Ok(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            exponent => {
                let digits = exponent.strip_prefix(['e', 'E']).ok_or(ParseQuantityError)?;
                Self::Ten(digits.parse::<i16>().map_err(|_| ParseQuantityError)?.into())
            }
        })
    }
}

/// Returns `whole.fraction` · 10^`exponent` in nanos, rounded up; `None` if it does not fit.
fn decimal_nanos(whole: &str, fraction: &str, exponent: i32) -> Option<i128> {
    let digits: String = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let shift = exponent + 9 - i32::try_from(fraction.len()).ok()?;
    let Ok(cut) = usize::try_from(-shift) else {
        let zeros = u32::try_from(shift).ok()?;
        return digits.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(zeros)?);
    };
    let (kept, lost) = digits.split_at(digits.len().saturating_sub(cut));
    let kept: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    Some(kept + i128::from(lost.bytes().any(|digit| digit != b'0')))
}

/// Returns `whole.fraction` · 2^`exponent` in nanos, rounded up; `None` if it does not fit.
fn binary_nanos(whole: &str, fraction: &str, exponent: u32) -> Option<i128> {
    let factor = NANOS_PER_UNIT << exponent;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let (kept, lost) = fraction.split_at(fraction.len().min(BINARY_FRACTION_DIGITS));
    let kept_value: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    let kept_value = kept_value + i128::from(lost.bytes().any(|digit| digit != b'0'));
    let parts = 10_i128.pow(u32::try_from(kept.len()).ok()?);
    whole.checked_mul(factor)?.checked_add(divide_away_from_zero(kept_value.checked_mul(factor)?, parts))
}

fn divide_away_from_zero(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|_| panic!("{text:?} is an amount"))
    }

    #[test]
    fn suffixes_are_exact() {
        for (text, nanos) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("1.", 1_000_000_000),
            (".5", 500_000_000),
            ("500m", 500_000_000),
            ("0.5", 500_000_000),
            ("+2", 2_000_000_000),
            ("-1", -1_000_000_000),
            ("7n", 7),
            ("7u", 7_000),
            ("0.1n", 1),
            ("1.0000000001", 1_000_000_001),
            ("2k", 2_000_000_000_000),
            ("1e3", 1_000_000_000_000),
            ("1E3", 1_000_000_000_000),
            ("1e-3", 1_000_000),
            ("1.5e1", 15_000_000_000),
            ("1Ki", 1_024_000_000_000),
            ("1.5Ki", 1_536_000_000_000),
            ("0.1Ki", 102_400_000_000),
            ("000000000000000000000000000000000000000001", 1_000_000_000),
            ("1000000000000000000000000000000000000000000000n", i128::from(i64::MAX) * 1_000_000_000),
        ] {
            assert_eq!(parse(text).nanos, nanos, "{text}");
        }
    }

    #[test]
    fn suffixes_scale() {
        for (text, units) in [
            ("1M", 1_000_000),
            ("1G", 1_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1Mi", 1 << 20),
            ("1Gi", 1 << 30),
            ("1Ti", 1 << 40),
            ("1Pi", 1 << 50),
            ("7Ei", 7 << 60),
            ("8Ei", i64::MAX),
            ("100E", i64::MAX),
            ("1e400", i64::MAX),
            ("-100E", -i64::MAX),
            ("1.2", 2),
            ("-1.2", -2),
        ] {
            assert_eq!(parse(text).units(), units, "{text}");
        }
    }

    #[test]
    fn what_is_not_an_amount_is_refused() {
        for text in [
            "", ".", "-", "+", "1..2", "1.2.3", "Mi", "1 Mi", " 1", "1mi", "1MI", "1e", "1ee3", "1e+-3",
            "--1", "0x10", "1K", "ⅷ", "1Mi1",
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(ParseQuantityError), "{text:?}");
        }
    }

    #[test]
    fn millis_round_up() {
        assert_eq!(parse("0.0001").millis(), 1);
        assert_eq!(parse("1.5").millis(), 1500);
        assert_eq!(parse("0.1m").to_millis(), parse("1m"));
        assert_eq!(parse("-1.5m").to_millis(), parse("-2m"));
        assert_eq!(parse("10Ei").to_millis(), parse("10Ei"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn no_near_miss_panics(text in "[-+]?[0-9.]{0,50}([eE][-+]?[0-9]{0,6}|[numkMGTPE]|[KMGTPE]i)?") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn whole_numbers_are_themselves(units in any::<i64>()) {
            prop_assert_eq!(parse(&units.to_string()).units(), units.max(-i64::MAX));
        }

        #[test]
        fn thousandths_are_exact(millis in 0..i64::MAX / 1000) {
            prop_assert_eq!(parse(&format!("{millis}m")), Quantity::from_millis(millis));
        }
    }
}
