//! The frame of an entry: a line with a checksum.

use serde::Serialize;

/// How many characters precede an entry: its checksum and a space.
const PREFIX: usize = 9;

/// The longest entry, including the end of its line. The state of a core with thousands of pods takes a few MiB.
/// Readers refuse longer entries, so none is written.
pub(super) const LONGEST_ENTRY: usize = 64 << 20;

/// Appends an entry to `line`.
pub(super) fn write(line: &mut Vec<u8>, entry: &impl Serialize) {
    let start = line.len();
    line.extend_from_slice(&[b' '; PREFIX]);
    // Everything that is recorded can be expressed in JSON, and writing to memory does not fail.
    if serde_json::to_writer(&mut *line, entry).is_err() {
        line.truncate(start);
        return;
    }
    let prefix = prefix(&line[start + PREFIX..]);
    line[start..start + PREFIX].copy_from_slice(prefix.as_bytes());
    line.push(b'\n');
}

/// Returns the entry in a line without its line end, if it is undamaged.
pub(super) fn read(line: &[u8]) -> Option<&str> {
    let (found, entry) = line.split_at_checked(PREFIX)?;
    std::str::from_utf8(entry).ok().filter(|_| prefix(entry).as_bytes() == found)
}

fn prefix(entry: &[u8]) -> String {
    format!("{:08x} ", crc32fast::hash(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let mut line = Vec::new();
        write(&mut line, &serde_json::json!({"a": "ü\n"}));
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(read(&line), Some("{\"a\":\"ü\\n\"}"));
        for index in 0..line.len() {
            let mut damaged = line.clone();
            // The second one turns small letters into capitals.
            for change in [1, 0x20, 0x80] {
                damaged[index] = line[index] ^ change;
                assert_eq!(read(&damaged), None, "byte {index}");
            }
            assert_eq!(read(&line[..index]), None, "cut at {index}");
        }
    }
}
