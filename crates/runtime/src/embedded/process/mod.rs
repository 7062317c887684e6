//! The few system calls that have no safe wrapper.

mod confine;
mod descriptors;
mod device_filter;
mod fork;
mod keyring;
mod oom_score;
mod open_files;
mod signals;
mod streams;

use std::os::fd::{FromRawFd as _, OwnedFd};

use super::error::{Error, Result};

pub(crate) use confine::{Rights, confine};
pub(crate) use descriptors::{beyond_streams, close_all};
pub(crate) use device_filter::{attach_device_filter, load_device_filter};
pub(crate) use fork::{Born, exit_now, fork, replace_environment};
pub(crate) use keyring::leave_session_keyring;
pub(crate) use oom_score::outlast_others;
pub(crate) use open_files::{allow_all_open_files, allow_open_files, open_files};
pub(crate) use signals::reset_signals;
pub(crate) use streams::give_streams_to;

/// Takes ownership of a descriptor that the parent process left open for us, and makes it close on `execve`.
#[expect(unsafe_code, reason = "a number from the parent process becomes a descriptor exactly here")]
pub(crate) fn adopt_fd(number: i32) -> Result<OwnedFd> {
    if number < 3 {
        return Err(Error::invalid("fd", "standard streams are not for this"));
    }
    // SAFETY: checked to be open by fcntl below; nothing else in this process, which has just begun, refers to it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| Error::io("take over a descriptor", errno))?;
    Ok(fd)
}

/// Sends a signal by number: real-time signals, which an image may ask to be stopped by, have no name.
#[expect(unsafe_code, reason = "no safe wrapper takes real-time signals by number")]
pub(crate) fn kill_raw(pid: i32, number: i32) -> nix::Result<()> {
    // SAFETY: kill(2) takes two numbers and touches no memory of ours.
    nix::errno::Errno::result(unsafe { nix::libc::kill(pid, number) }).map(drop)
}
