//! The last steps before a container's program: giving up capabilities, and loading the system call filter.

use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

use crate::embedded::error::{Error, Result};
use crate::embedded::seccomp::Filter;

/// The capabilities of a container, as the kernel numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// The capabilities that its programs may have at most; root has all of them.
    pub(crate) bounding: u64,
    /// The capabilities that its programs have, whatever user they run as.
    pub(crate) ambient: u64,
}

/// Leaves this process with the capabilities and the filter of the program that it is about to become.
///
/// Without `no_new_privs`, only an administrator may load a filter, so that capability is kept until `execve`, which
/// takes it away: it computes a program's capabilities from the two sets in [`Rights`], and from nothing else that is
/// left here. So the filter can be loaded as the very last step, and a profile need not allow anything that we do.
pub(crate) fn confine(rights: Rights, filter: Option<&Filter>) -> Result<()> {
    let failed = |errno: rustix::io::Errno| Error::io("drop capabilities", errno);
    // A change of user only makes them ineffective: they are still permitted.
    let own = rustix::thread::capabilities(None).map_err(failed)?;
    rustix::thread::set_capabilities(None, CapabilitySets { effective: own.permitted, ..own })
        .map_err(failed)?;
    let wanted = CapabilitySet::from_bits_retain(rights.bounding);
    let ambient = CapabilitySet::from_bits_retain(rights.ambient);
    for capability in (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match rustix::thread::capability_is_in_bounding_set(capability) {
            Ok(true) if !wanted.contains(capability) => {
                rustix::thread::remove_capability_from_bounding_set(capability).map_err(failed)?;
            }
            Ok(_) => {}
            // Beyond the last capability of this kernel.
            Err(_) => break,
        }
    }
    let mut held = own.permitted & wanted;
    if filter.is_some() && !rustix::thread::no_new_privs().map_err(failed)? {
        held |= own.permitted & CapabilitySet::SYS_ADMIN;
    }
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: ambient };
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    rustix::thread::clear_ambient_capability_set().map_err(failed)?;
    for capability in ambient.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true).map_err(failed)?;
    }
    filter.map_or(Ok(()), load)
}

#[expect(unsafe_code, reason = "seccomp(2) has no safe wrapper")]
fn load(filter: &Filter) -> Result<()> {
    let mut program: Vec<nix::libc::sock_filter> = filter
        .program
        .iter()
        .map(|instruction| nix::libc::sock_filter {
            code: instruction.code,
            jt: instruction.if_true,
            jf: instruction.if_false,
            k: instruction.value,
        })
        .collect();
    let len = u16::try_from(program.len())
        .map_err(|_| Error::Internal("the seccomp filter is too long".to_owned()))?;
    let header = nix::libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies `len` instructions from a vector that outlives the call, and checks them.
    let outcome = unsafe {
        nix::libc::syscall(
            nix::libc::SYS_seccomp,
            nix::libc::SECCOMP_SET_MODE_FILTER,
            nix::libc::c_ulong::from(filter.flags),
            std::ptr::from_ref(&header),
        )
    };
    nix::errno::Errno::result(outcome).map(drop).map_err(|errno| Error::io("load the seccomp filter", errno))
}
