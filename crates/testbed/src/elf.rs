//! The distinction between static executables and those that need a loader and libraries, which an image with a single
//! file does not have.

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const PT_INTERP: u32 = 3;

/// Returns whether this is an ELF file for a 64-bit little-endian machine that needs no loader.
pub(crate) fn is_static(file: &[u8]) -> bool {
    asks_for_loader(file) == Some(false)
}

fn asks_for_loader(file: &[u8]) -> Option<bool> {
    if !file.starts_with(MAGIC) || file.get(4) != Some(&CLASS_64) || file.get(5) != Some(&LITTLE_ENDIAN) {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(field(file, 0x20)?)).ok()?;
    let entry_size = usize::from(u16::from_le_bytes(field(file, 0x36)?));
    let entries = usize::from(u16::from_le_bytes(field(file, 0x38)?));
    for entry in 0..entries {
        if u32::from_le_bytes(field(file, table + entry * entry_size)?) == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

fn field<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::is_static;

    #[test]
    fn a_usual_test_executable_is_not_static() {
        let this_test = std::fs::read("/proc/self/exe").expect("a process can read its own executable");
        assert!(!is_static(&this_test));
    }

    #[test]
    fn what_is_no_executable_is_not_static() {
        assert!(!is_static(b""));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b"\x7fELF\x02\x01"));
    }
}
