//! Control group programs that decide which devices may be opened, loaded and attached with `bpf(2)`.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::embedded::device_filter::Instruction;

const PROG_LOAD: libc::c_long = 5;
const PROG_ATTACH: libc::c_long = 8;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
/// Programs of the groups above apply as well: all of them must allow an access.
const ALLOW_MULTI: u32 = 1 << 1;

const LICENSE: &CStr = c"Apache-2.0";

/// The part of `union bpf_attr` that loading needs; the kernel takes the rest as zeros.
#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    length: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// The part of `union bpf_attr` that attaching needs.
#[repr(C)]
struct Attach {
    group: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

/// Loads a program: the kernel verifies it, and keeps it as long as this descriptor or what it is attached to.
pub(crate) fn load_device_filter(program: &[Instruction]) -> nix::Result<OwnedFd> {
    let words: Vec<u64> = program.iter().map(|instruction| instruction.to_word()).collect();
    match load(&words) {
        // Before Linux 5.11, its memory counts as locked memory, whose limit may be close to zero. Nothing but us runs
        // in this process, and the limit ends with it.
        Err(Errno::EPERM) => {
            let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
            load(&words)
        }
        loaded => loaded,
    }
}

#[expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]
fn load(words: &[u64]) -> nix::Result<OwnedFd> {
    let mut arguments = Load {
        program_type: PROG_TYPE_CGROUP_DEVICE,
        length: u32::try_from(words.len()).map_err(|_| Errno::E2BIG)?,
        instructions: words.as_ptr().expose_provenance() as u64,
        license: LICENSE.as_ptr().expose_provenance() as u64,
        ..Load::default()
    };
    arguments.name[..7].copy_from_slice(b"rubelet");
    // SAFETY: the kernel reads the arguments, `length` instructions and the licence up to its zero; all of them outlive
    // the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, std::ptr::from_ref(&arguments), size_of::<Load>()) };
    let fd = i32::try_from(Errno::result(answer)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made it, for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a program, which the kernel then asks whenever a process of this group opens or creates a device. The group
/// keeps the program.
#[expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]
pub(crate) fn attach_device_filter(program: &OwnedFd, group: &File) -> nix::Result<()> {
    let arguments = Attach {
        group: group.as_raw_fd().cast_unsigned(),
        program: program.as_raw_fd().cast_unsigned(),
        kind: CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    // SAFETY: the kernel reads the arguments, which outlive the call.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, PROG_ATTACH, std::ptr::from_ref(&arguments), size_of::<Attach>())
    };
    Errno::result(answer).map(drop)
}
