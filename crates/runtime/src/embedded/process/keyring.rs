//! The keyring that the kernel keeps for a process and its descendants.

use nix::errno::Errno;
use nix::libc;

use crate::embedded::error::{Error, Result};

/// Replaces the session keyring of whoever started this process with a new, empty one, which its children inherit.
pub(crate) fn leave_session_keyring() -> Result<()> {
    match join_new_session_keyring() {
        // The kernel has no keyrings, or a filter denies them to us, and so to all that we start.
        Ok(()) | Err(Errno::ENOSYS | Errno::EPERM) => Ok(()),
        Err(Errno::EDQUOT) => Err(Error::State(
            "the kernel gives this user no more keyrings, and a container needs one of its own: raise the limits in /proc/sys/kernel/keys (for root root_maxkeys and root_maxbytes, else maxkeys and maxbytes)"
                .to_owned(),
        )),
        Err(errno) => Err(Error::io("make a session keyring", errno)),
    }
}

#[expect(unsafe_code, reason = "keyctl(2) has no safe wrapper")]
fn join_new_session_keyring() -> nix::Result<()> {
    let no_name = std::ptr::null::<libc::c_char>();
    // SAFETY: without a name the kernel reads nothing of ours.
    let answer = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, no_name) };
    Errno::result(answer).map(drop)
}
