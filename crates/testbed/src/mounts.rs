//! The search for mounts below a folder, and their removal.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};

use crate::Error;

/// Detaches all of them, the last mounted first. They are finally gone when nobody uses them any more.
pub(crate) fn detach_below(dir: &Path) -> Result<(), Error> {
    for mount in below(dir)?.iter().rev() {
        unmount(mount, UnmountFlags::DETACH).map_err(|error| Error::io("unmount", mount)(error.into()))?;
    }
    let left = below(dir)?;
    if left.is_empty() {
        return Ok(());
    }
    let what = left.iter().map(|mount| format!("mount {}", mount.display())).collect();
    Err(Error::LeftBehind { dir: dir.to_path_buf(), what })
}

/// Returns all of them, in the order in which they were mounted.
pub(crate) fn below(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    const TABLE: &str = "/proc/self/mountinfo";
    let table = std::fs::read_to_string(TABLE).map_err(Error::io("read", TABLE.as_ref()))?;
    Ok(table.lines().filter_map(mount_point).filter(|mount| mount.starts_with(dir)).collect())
}

fn mount_point(line: &str) -> Option<PathBuf> {
    let escaped = line.split(' ').nth(4)?.as_bytes();
    let mut path = Vec::with_capacity(escaped.len());
    let mut at = 0;
    while let Some(byte) = escaped.get(at) {
        let octal = (*byte == b'\\').then(|| escaped.get(at + 1..at + 4)).flatten();
        let octal = octal.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        path.push(octal.unwrap_or(*byte));
        at += if octal.is_some() { 4 } else { 1 };
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::mount_point;

    #[test]
    fn blanks_in_a_mount_point_are_written_in_octal() {
        let line = r"36 35 98:0 / /tmp/a\040b\134c rw,noatime - ext4 /dev/root rw";
        assert_eq!(mount_point(line).as_deref(), Some(Path::new(r"/tmp/a b\c")));
        assert_eq!(mount_point("36 35"), None);
    }
}
