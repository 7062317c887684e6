//! Forking: a second process with a copy of this one's memory.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::libc;

/// Which process returns from a fork.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Born {
    /// The one that forked, with the pid of the child.
    Parent(i32),
    /// The new one, and whether it was created in the requested control group.
    Child { in_group: bool },
}

/// Forks, directly into a v2 control group if one is given: moving there later makes every process of the machine wait.
///
/// Only for processes with one thread: any other thread would be missing in the child, together with all that it holds.
#[expect(unsafe_code, reason = "a fork has no safe wrapper")]
pub(crate) fn fork(group: Option<BorrowedFd<'_>>) -> nix::Result<Born> {
    if let Some(group) = group {
        // SAFETY: all zeros are valid for a structure of numbers, and mean "as fork does".
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
        arguments.cgroup = u64::from(group.as_raw_fd().cast_unsigned());
        // SAFETY: without a stack of its own the child continues with a copy of this one, as after a fork; there is one
        // thread, so no lock is held by anybody else.
        let pid = unsafe {
            libc::syscall(libc::SYS_clone3, std::ptr::from_ref(&arguments), size_of::<libc::clone_args>())
        };
        match Errno::result(pid) {
            Ok(0) => return Ok(Born::Child { in_group: true }),
            Ok(pid) => return i32::try_from(pid).map(Born::Parent).map_err(|_| Errno::ERANGE),
            // Kernels before 5.7, filters that cannot look into the arguments, and groups that have groups below them.
            Err(Errno::ENOSYS | Errno::EINVAL | Errno::E2BIG | Errno::EPERM | Errno::EBUSY) => {}
            Err(errno) => return Err(errno),
        }
    }
    // SAFETY: there is one thread, so no lock is held by anybody else.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Born::Parent(child.as_raw())),
        nix::unistd::ForkResult::Child => Ok(Born::Child { in_group: false }),
    }
}

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Ends this process without running any code of the one that it was forked from.
#[expect(unsafe_code, reason = "the end of a process has no safe wrapper that runs no handlers")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: nothing is touched; the kernel takes everything back.
    unsafe { libc::_exit(code) }
}

/// Replaces all environment variables of this process.
///
/// Only for a process with one thread that is about to become another program.
#[expect(unsafe_code, reason = "variables belong to all threads of a process")]
pub(crate) fn replace_environment(variables: Vec<(String, String)>) {
    let old: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in old {
        // SAFETY: there is no other thread that could read them.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in variables {
        // SAFETY: as above. Names were checked when the container was created.
        unsafe { std::env::set_var(name, value) };
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{WaitStatus, waitpid};
    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::embedded::test_group::TestGroup;

    /// Uses only system calls, and no memory: the threads of other tests do not exist in the child.
    fn is_in_a_group_of_ours() -> bool {
        let mut text = [0; 4096];
        let read = rustix::fs::open("/proc/self/cgroup", OFlags::RDONLY, Mode::empty())
            .and_then(|file| rustix::io::read(file, &mut text));
        read.is_ok_and(|length| text[..length].windows(13).any(|part| part == b"rubelet-fork-"))
    }

    #[test]
    fn a_process_is_born_in_its_group() {
        let Some(group) = TestGroup::make("fork") else {
            eprintln!("SKIPPED: no control groups of v2 to make one in");
            return;
        };
        let folder = std::fs::File::open(group.folder()).expect("a folder");
        use std::os::fd::AsFd as _;
        match fork(Some(folder.as_fd())).expect("a process") {
            Born::Child { in_group } => exit_now(i32::from(!(in_group && is_in_a_group_of_ours()))),
            Born::Parent(pid) => {
                let pid = nix::unistd::Pid::from_raw(pid);
                assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 0)));
            }
        }
    }
}
