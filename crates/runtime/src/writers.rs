//! The writers of a file, which tell whether it is complete.

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::libc;
use rustix::io::Errno;

/// The file systems of which the kernel knows every writer: ext2 to 4, XFS, Btrfs, tmpfs, overlayfs, F2FS, bcachefs and
/// ZFS. Network file systems refuse a lease even if nobody is writing.
const LOCAL: [u32; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0xCA45_1A4E, 0x2FC1_2FC1];

/// The same on all processors that we run on; `libc` does not define it.
const F_SETSIG: libc::c_int = 10;

/// Whether anyone has the file open for writing. `None` if the kernel does not tell, which depends on the file's owner
/// and file system.
///
/// The kernel grants a read lease only for files that nobody has open for writing. Whoever opens the file while we hold
/// the lease waits until it is returned, which happens at once.
#[must_use]
pub fn is_open_for_writing(file: &File) -> Option<bool> {
    let kind = u32::try_from(rustix::fs::fstatfs(file).ok()?.f_type).ok()?;
    if !LOCAL.contains(&kind) {
        return None;
    }
    // A signal tells the holder of a lease that someone wants to write. SIGIO would kill us; SIGURG is ignored by
    // default.
    control(file, F_SETSIG, libc::SIGURG).ok()?;
    match control(file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            // If it cannot be returned here, it is returned when the file is closed.
            let _ = control(file, libc::F_SETLEASE, libc::F_UNLCK);
            Some(false)
        }
        Err(Errno::AGAIN) => Some(true),
        Err(_) => None,
    }
}

#[expect(unsafe_code, reason = "leases have no safe wrapper")]
fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the commands of this file take a number and a descriptor that is open, and touch no memory of ours.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_until_its_last_writer_closes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let first = File::create(&path).unwrap();
        let read = || is_open_for_writing(&File::open(&path).unwrap());
        if read().is_none() {
            return eprintln!("skipped: the file system of {} does not tell", path.display());
        }
        let second = File::options().append(true).open(&path).unwrap();
        assert_eq!(read(), Some(true));
        drop(first);
        assert_eq!(read(), Some(true));
        drop(second);
        assert_eq!(read(), Some(false));
        let _other_reader = File::open(&path).unwrap();
        assert_eq!(read(), Some(false), "who reads does not write");
    }

    /// Opening a file at the very moment of the check succeeds, and neither side ends the other.
    #[test]
    fn asking_does_no_harm_to_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap();
        let asked = std::thread::spawn({
            let path = path.clone();
            move || (0..2000).filter_map(|_| is_open_for_writing(&File::open(&path).unwrap())).count()
        });
        while !asked.is_finished() {
            File::options().write(true).open(&path).unwrap();
        }
        asked.join().unwrap();
    }

    #[test]
    fn a_file_system_without_files_of_its_own_does_not_tell() {
        assert_eq!(is_open_for_writing(&File::open("/proc/self/status").unwrap()), None);
    }
}
