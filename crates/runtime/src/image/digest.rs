//! Content addresses: `sha256:<64 hex digits>`, and nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256:";
const HEX_LEN: usize = 64;

/// A sha256 digest in its written form, validated: safe to use as a file name and to compare as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// The reason why a text is not a usable digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The algorithm is not sha256, or is missing.
    #[error("digest {0:?} is not of the form sha256:<hex>")]
    Algorithm(String),
    /// The rest is not exactly 64 lower-case hexadecimal digits.
    #[error("digest {0:?} does not have 64 lower-case hexadecimal digits")]
    Hex(String),
}

/// Computes a [`Digest`] incrementally.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

// === impl Digest ===

impl Digest {
    /// Computes the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The hexadecimal part alone: 64 characters, usable as a file name.
    #[must_use]
    pub fn hex(&self) -> &str {
        &self.0[ALGORITHM.len()..]
    }

    /// The whole text, `sha256:…`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a digest from its hexadecimal part.
    pub(crate) fn from_hex(hex: &str) -> Result<Self, DigestError> {
        if hex.len() == HEX_LEN && hex.bytes().all(is_lower_hex) {
            Ok(Self(format!("{ALGORITHM}{hex}")))
        } else {
            Err(DigestError::Hex(hex.to_owned()))
        }
    }
}

pub(crate) fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix(ALGORITHM).ok_or_else(|| DigestError::Algorithm(text.to_owned()))?;
        Self::from_hex(hex).map_err(|_| DigestError::Hex(text.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Hasher ===

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut text = String::with_capacity(ALGORITHM.len() + HEX_LEN);
        text.push_str(ALGORITHM);
        for byte in self.0.finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_digest_is_the_well_known_one() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(empty.parse::<Digest>().unwrap().hex().len(), 64);
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let upper = format!("sha256:{}", "A".repeat(64));
        let long = format!("sha256:{}", "a".repeat(65));
        for text in ["", "sha256:", "sha512:00", "../../etc/passwd", &upper, &long, "sha256:../../x"] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
