//! One look at one file, which returns nothing if the file has not changed, and its text otherwise. It never waits and
//! never reads more than a manifest may have.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::manifest::{Issue, LARGEST_MANIFEST};

/// Identifies one version of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The result of looking at a file.
pub(super) enum Look {
    Unchanged,
    Gone,
    Read(Version, Result<Vec<u8>, Issue>),
    /// The file changed while it was read.
    InMotion,
    /// The file is open for writing: its text may be incomplete.
    BeingWritten,
}

/// Asks the kernel whether a file is open for writing. `None` if the kernel cannot tell.
pub type OpenForWriting = fn(&File) -> Option<bool>;

/// Looks at a file; `known` is the version that need not be read again.
pub(super) fn look(path: &Path, known: Option<Version>, is_open_for_writing: OpenForWriting) -> Look {
    // A file that cannot be opened has no version: it is read again each time.
    let unreadable = |error: io::Error| match error.kind() {
        // A disk that is not mounted is no reason to end pods.
        ErrorKind::NotFound if path.is_symlink() => Look::Read(NO_VERSION, Err(dangling_link())),
        ErrorKind::NotFound => Look::Gone,
        _ => Look::Read(NO_VERSION, Err(Issue::Unreadable(error.to_string()))),
    };
    match fs::metadata(path) {
        Ok(metadata) if known == Some(Version::of(&metadata)) => return Look::Unchanged,
        // Opening a pipe would wait for its writer.
        Ok(metadata) if !metadata.is_file() => {
            return Look::Read(Version::of(&metadata), Err(Issue::NotAFile));
        }
        Ok(_) => {}
        Err(error) => return unreadable(error),
    }
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(nonblocking).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return unreadable(error),
    };
    match read(&mut file, is_open_for_writing) {
        Ok(look) => look,
        Err(error) => unreadable(error),
    }
}

/// The problem of a path that leads nowhere.
pub(super) fn dangling_link() -> Issue {
    Issue::Unreadable("it is a dangling link".to_owned())
}

const NO_VERSION: Version = Version { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0) };

fn read(file: &mut File, is_open_for_writing: OpenForWriting) -> io::Result<Look> {
    let before = file.metadata()?;
    if !before.is_file() {
        return Ok(Look::Read(Version::of(&before), Err(Issue::NotAFile)));
    }
    // Checked once the version is known: a writer that starts after this produces another version.
    if is_open_for_writing(file) == Some(true) {
        return Ok(Look::BeingWritten);
    }
    let mut text = Vec::new();
    let limit = LARGEST_MANIFEST as u64;
    file.take(limit + 1).read_to_end(&mut text)?;
    let after = Version::of(&file.metadata()?);
    if after != Version::of(&before) {
        return Ok(Look::InMotion);
    }
    let text = if text.len() > LARGEST_MANIFEST {
        Err(Issue::TooLarge { limit: LARGEST_MANIFEST })
    } else {
        Ok(text)
    };
    Ok(Look::Read(after, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_unless_somebody_is_known_to_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.yaml");
        fs::write(&path, "a: 1").expect("written");
        let asked: [(OpenForWriting, bool); 3] =
            [(|_| Some(true), false), (|_| Some(false), true), (|_| None, true)];
        for (answer, is_read) in asked {
            let looked = look(&path, None, answer);
            assert_eq!(matches!(looked, Look::Read(_, Ok(_))), is_read);
            assert_eq!(matches!(looked, Look::BeingWritten), !is_read);
        }
    }
}
