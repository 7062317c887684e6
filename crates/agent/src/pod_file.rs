//! The small files in a pod's folder in which an agent keeps what it knows about the pod. They are written atomically,
//! so that an agent killed during a write leaves the previous version.
//!
//! All of this blocks: call it off the async threads.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A larger file was not written by an agent.
pub(crate) const MOST_BYTES: u64 = 4 << 20;

/// What a file must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlives {
    /// A restart of the agent.
    Agent,
    /// A power cut as well.
    Machine,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is larger than {MOST_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    NotUnderstood(#[from] serde_json::Error),
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PodFileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(PodFileError::TooLarge);
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

/// Reads a file, or returns the default if it is missing or damaged. `what` describes its contents for the log.
pub(crate) fn read_or_default<T: DeserializeOwned + Default>(path: &Path, what: &str) -> T {
    read(path).map(Option::unwrap_or_default).unwrap_or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "cannot read {what}; continuing without it");
        T::default()
    })
}

/// Writes a file. For a pod without a folder, nothing needs to be kept.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T, outlives: Outlives) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    match put(path, &text, outlives) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

fn put(path: &Path, text: &[u8], outlives: Outlives) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text)?;
    if outlives == Outlives::Machine {
        file.sync_all()?;
    }
    fs::rename(&new, path)?;
    if let (Outlives::Machine, Some(folder)) = (outlives, path.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_without_a_folder_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pod/numbers.json");
        write(&path, &[1, 2], Outlives::Agent).unwrap();
        assert!(!path.parent().unwrap().exists());
        assert_eq!(read::<Vec<u8>>(&path).unwrap(), None);
        fs::create_dir(path.parent().unwrap()).unwrap();
        for (numbers, outlives) in [([1, 2], Outlives::Agent), ([3, 4], Outlives::Machine)] {
            write(&path, &numbers, outlives).unwrap();
            assert_eq!(read::<Vec<u8>>(&path).unwrap(), Some(numbers.to_vec()));
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_is_damaged_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers.json");
        let long = " ".repeat(usize::try_from(MOST_BYTES).unwrap()) + "[1]";
        for text in ["", "[1, 2", "\0\0\0", "{\"a\": 1}", &long] {
            fs::write(&path, text).unwrap();
            assert!(read::<Vec<u8>>(&path).is_err(), "{}", &text[..text.len().min(40)]);
            assert_eq!(read_or_default::<Vec<u8>>(&path, "this"), Vec::<u8>::new());
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(read::<Vec<u8>>(&path).is_err(), "a folder");
    }
}
