//! How far somebody has read the logs of containers who is to miss nothing: what he has not read is not removed, however often
//! the container was started again meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// What was read of the logs of containers. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LogReader(Arc<Mutex<BTreeMap<PathBuf, u32>>>);

impl LogReader {
    /// Of the container whose logs are in `folder` all instances before this one were read.
    pub fn note_read_before(&self, folder: &Path, number: u32) {
        let mut read = self.0.lock();
        if read.get(folder) != Some(&number) {
            read.insert(folder.to_owned(), number);
        }
    }

    /// Whether the log of this instance is still to be read.
    pub(crate) fn is_to_read(&self, folder: &Path, number: u32) -> bool {
        self.0.lock().get(folder).is_none_or(|begun| number >= *begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_to_be_read_that_was_not() {
        let reader = LogReader::default();
        let (one, other) = (Path::new("/logs/a"), Path::new("/logs/b"));
        reader.note_read_before(one, 2);
        let to_read = |folder| (0..4).filter(|number| reader.is_to_read(folder, *number)).collect::<Vec<_>>();
        assert_eq!((to_read(one), to_read(other)), (vec![2, 3], vec![0, 1, 2, 3]));
    }
}
