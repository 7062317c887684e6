//! The API's notation for quantities: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`. The user's notation only decides
//! whether decimal or binary suffixes are used.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{NANOS_PER_UNIT, Quantity};

const DECIMAL: [(&str, &str); 10] = [
    ("n", "e-9"),
    ("u", "e-6"),
    ("m", "e-3"),
    ("", ""),
    ("k", "e3"),
    ("M", "e6"),
    ("G", "e9"),
    ("T", "e12"),
    ("P", "e15"),
    ("E", "e18"),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// What the suffixes of a quantity are powers of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `k`, `M`.
    Tens,
    /// `e3`, `e6`.
    Exponents,
    /// `Ki`, `Mi`.
    Twos,
}

impl Notation {
    /// Returns the notation of a text, which must be a quantity.
    pub(crate) fn of(text: &str) -> Self {
        let is_exponent = |(at, _): (usize, char)| text[at + 1..].starts_with(|c: char| c != 'i');
        if text.ends_with('i') {
            Self::Twos
        } else if text.char_indices().find(|(_, c)| matches!(c, 'e' | 'E')).is_some_and(is_exponent) {
            Self::Exponents
        } else {
            Self::Tens
        }
    }

    /// Writes a quantity with the largest suffix that leaves a whole number.
    pub(crate) fn write(self, amount: Quantity) -> WireQuantity {
        let binary = (self == Self::Twos).then(|| binary(amount)).flatten();
        WireQuantity(binary.unwrap_or_else(|| decimal(amount, self == Self::Exponents)))
    }
}

/// Returns a quantity as the API writes it. An invalid one stays as it is.
pub(crate) fn canonical(wire: &WireQuantity) -> WireQuantity {
    let Ok(amount) = Quantity::of(wire) else { return wire.clone() };
    let notation = Notation::of(&wire.0);
    let written = notation.write(amount);
    // An exponent keeps its capital letter if nothing else changes.
    let is_same = notation == Notation::Exponents && written.0.eq_ignore_ascii_case(&wire.0);
    if is_same { wire.clone() } else { written }
}

/// Writes a quantity with a binary suffix; `None` for a small or fractional one, which is written with a decimal one.
fn binary(amount: Quantity) -> Option<String> {
    let mut number = amount.nanos / NANOS_PER_UNIT;
    if !amount.is_whole() || number.abs() < 1024 {
        return None;
    }
    let mut suffixes = BINARY.iter();
    let mut suffix = suffixes.next()?;
    while number % 1024 == 0
        && let Some(next) = suffixes.next()
    {
        (number, suffix) = (number / 1024, next);
    }
    Some(format!("{number}{suffix}"))
}

fn decimal(amount: Quantity, as_exponent: bool) -> String {
    if amount.is_zero() {
        return "0".to_owned();
    }
    let (mut number, mut step) = (amount.nanos, 0);
    while number % 1000 == 0 && step + 1 < DECIMAL.len() {
        (number, step) = (number / 1000, step + 1);
    }
    let (suffix, exponent) = DECIMAL[step];
    format!("{number}{}", if as_exponent { exponent } else { suffix })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_written_as_the_api_does() {
        for (text, wanted) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("128974848", "128974848"),
            ("7n", "7n"),
            ("-2.5", "-2500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1.0001Ki", "1024102400u"),
            ("1e3", "1e3"),
            ("1000E0", "1e3"),
            ("12e-3", "12e-3"),
            ("2E", "2E"),
            ("1Ei", "1Ei"),
            ("1E3", "1E3"),
            ("2E6", "2E6"),
            ("1E-3", "1E-3"),
            ("64M", "64M"),
            ("64000000", "64M"),
            ("1000k", "1M"),
            ("1024M", "1024M"),
            ("1.5G", "1500M"),
            ("0.5Gi", "512Mi"),
            ("0.1Gi", "107374182400m"),
            ("1.25Ti", "1280Gi"),
            ("-1.5Gi", "-1536Mi"),
            ("0.000001Ki", "1024u"),
            ("1.0000000001", "1000000001n"),
            ("1e1", "10"),
            ("2e2", "200"),
            ("100e1", "1e3"),
            ("1.5e3", "1500"),
            ("1e5", "100e3"),
            ("1234e3", "1234e3"),
            ("100e-3", "100e-3"),
            ("5e-10", "1e-9"),
            ("1e3k", "1e3k"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(canonical(&WireQuantity(text.to_owned())).0, wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_meant(text in "[0-9]{1,9}(\\.[0-9]{1,3})?([numkMGTPE]|[KMGTPE]i|e-?[0-9])?") {
            let wire = WireQuantity(text);
            prop_assert_eq!(Quantity::of(&canonical(&wire)), Quantity::of(&wire));
        }
    }
}
