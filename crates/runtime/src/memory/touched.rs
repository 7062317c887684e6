//! Maps only those pages of a program that it touches.
//!
//! Whenever a page of a file is touched, Linux also maps those around it that are in its cache, 64 KiB or a whole large
//! folio. That is cheap if code is used sequentially, but an idle agent needs only scattered pages of a large program,
//! so nine tenths of what would be mapped are never used. A mapping in which a userfaultfd tracks writes is exempt.
//! Nothing ever writes to these mappings, so nothing is tracked, and nobody has to listen.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{IntoRawFd as _, OwnedFd};

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::UserfaultfdFlags;

/// `UFFD_USER_MODE_ONLY`: the mode that the kernel allows to everybody.
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
const API: u64 = 0xAA;
/// `UFFD_FEATURE_WP_ASYNC`, since Linux 6.7: any mapping may be registered, and the kernel resolves faults by itself.
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const REGISTER_MODE_WP: u64 = 1 << 1;

const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xAA, 0x3F);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xAA, 0x00);

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// Makes the kernel map pages of this process's binaries one by one, until it ends or becomes another program. If the
/// kernel does not support or allow that, nothing changes.
pub fn map_only_what_is_touched() {
    let (Some(tracker), Ok(maps)) = (tracker(), File::open("/proc/self/maps")) else { return };
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    for (start, len) in lines.filter_map(|line| super::read_only_file(&line)) {
        let mut register =
            Register { start: start as u64, len: len as u64, mode: REGISTER_MODE_WP, ioctls: 0 };
        // A mapping that cannot be registered stays as it is.
        let _ = updated::<UFFDIO_REGISTER, _>(&tracker, &mut register);
    }
    // The registration lasts as long as this is open.
    let _ = tracker.into_raw_fd();
}

#[expect(unsafe_code, reason = "rustix calls it unsafe to make one, since it can change what memory holds")]
fn tracker() -> Option<OwnedFd> {
    // SAFETY: this one is given to nobody, and it is never told to put anything anywhere.
    let tracker = unsafe { rustix::mm::userfaultfd(UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY) }.ok()?;
    let mut api = Api { api: API, features: FEATURE_WP_ASYNC, ioctls: 0 };
    updated::<UFFDIO_API, _>(&tracker, &mut api).ok()?;
    Some(tracker)
}

#[expect(unsafe_code, reason = "ioctl(2) cannot know what it is given")]
fn updated<const OPCODE: Opcode, Value>(tracker: &OwnedFd, value: &mut Value) -> rustix::io::Result<()> {
    // SAFETY: both opcodes of this file carry the size of their structure, which the kernel reads and writes back;
    // neither changes what memory holds.
    unsafe { ioctl(tracker, Updater::<OPCODE, Value>::new(value)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::ptr;

    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    /// Returns how much of the mapping at `start` is mapped, in KiB.
    fn resident(start: usize) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    #[expect(unsafe_code, reason = "a file is mapped, as programs are")]
    fn of_a_file_only_what_is_touched_is_mapped() {
        const LEN: usize = 1 << 20;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; LEN]).unwrap();
        // SAFETY: a new mapping, at an address that the kernel chooses, of a file that exists as long as the mapping.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), LEN, ProtFlags::READ, MapFlags::PRIVATE, file.as_file(), 0)
        };
        let start = start.unwrap();
        map_only_what_is_touched();
        // SAFETY: the address is in the middle of the mapping.
        assert_eq!(unsafe { start.cast::<u8>().add(LEN / 2).read_volatile() }, 7);
        let all = if tracker().is_some() { 4 } else { LEN as u64 / 1024 };
        assert!(resident(start as usize) <= all);
    }
}
