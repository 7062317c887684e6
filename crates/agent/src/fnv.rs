//! 128-bit FNV-1a: short, stable names for things. Not suitable where someone might want to forge a hash.

use std::fmt;
use std::io;

/// A hasher; prints as 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fnv128(u128);

impl Default for Fnv128 {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Fnv128 {
    const PRIME: u128 = (1 << 88) + 0x13b;

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.add(bytes);
        hash
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(Self::PRIME);
        }
    }
}

impl fmt::Display for Fnv128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl io::Write for Fnv128 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(Fnv128::of(b"").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Fnv128::of(b"foobar").to_string(), "343e1662793c64bf6f0d3597ba446f18");
    }
}
