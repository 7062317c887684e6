//! Tracks how far the logs of containers have been read by a reader that must miss nothing: unread parts are kept,
//! however often the container was restarted or its log was rotated in the meantime.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// The device and inode of a file: renaming it, as rotation does, does not change them.
pub type FileId = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    number: u32,
    file: FileId,
}

/// How far the logs of containers have been read. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct LogReader(Arc<Mutex<BTreeMap<PathBuf, Reading>>>);

impl LogReader {
    /// Records that this file of this instance is being read, for the container whose logs are in `folder`. Everything
    /// before it has been read.
    pub fn note_reading(&self, folder: &Path, number: u32, file: FileId) {
        let reading = Reading { number, file };
        let mut all = self.0.lock();
        if all.get(folder) != Some(&reading) {
            all.insert(folder.to_owned(), reading);
        }
    }

    /// Whether the log of this instance has yet to be read.
    pub(crate) fn is_to_read(&self, folder: &Path, number: u32) -> bool {
        self.0.lock().get(folder).is_none_or(|reading| number >= reading.number)
    }

    /// Returns the oldest of these rotated parts of an instance's log that has yet to be read, if any. `parts` are
    /// ordered from oldest to newest, without the file that is currently written to.
    pub(crate) fn first_unread<'a>(
        &self,
        folder: &Path,
        number: u32,
        parts: &[(&'a str, FileId)],
    ) -> Option<&'a str> {
        let reading = self.0.lock().get(folder).copied();
        let from = match reading {
            Some(reading) if reading.number > number => return None,
            // If it is none of the parts, it is the file that is currently written to.
            Some(reading) if reading.number == number => {
                parts.iter().position(|(_, file)| *file == reading.file)?
            }
            _ => 0,
        };
        parts.get(from).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_to_be_read_until_a_later_one_is_being_read() {
        let reader = LogReader::default();
        let (one, other) = (Path::new("/logs/a"), Path::new("/logs/b"));
        reader.note_reading(one, 2, (1, 1));
        let to_read = |folder| (0..4).filter(|number| reader.is_to_read(folder, *number)).collect::<Vec<_>>();
        assert_eq!((to_read(one), to_read(other)), (vec![2, 3], vec![0, 1, 2, 3]));
    }

    #[test]
    fn parts_are_to_be_read_from_the_one_that_is_being_read() {
        let folder = Path::new("/logs/a");
        let parts = [("0.log.1", (1, 1)), ("0.log.2", (1, 2)), ("0.log.3", (1, 3))];
        for (reading, wanted) in [
            (None, Some("0.log.1")),
            (Some((0, (1, 2))), Some("0.log.2")),
            // The file that is currently written to.
            (Some((0, (1, 9))), None),
            (Some((1, (1, 2))), None),
        ] {
            let reader = LogReader::default();
            if let Some((number, file)) = reading {
                reader.note_reading(folder, number, file);
            }
            assert_eq!(reader.first_unread(folder, 0, &parts), wanted, "{reading:?}");
            assert_eq!(reader.first_unread(folder, 0, &[]), None);
        }
        let reader = LogReader::default();
        reader.note_reading(folder, 0, (1, 2));
        assert_eq!(
            reader.first_unread(folder, 1, &parts),
            Some("0.log.1"),
            "of a later instance nothing was read"
        );
    }
}
