//! Signals as a program expects to find them: none blocked, none ignored.

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Undoes what our own processes have set up for themselves, right before a container's program takes over.
///
/// Both the mask and ignored signals are inherited through `execve`: without this, a container would be deaf to SIGTERM
/// because its shim reads that from a descriptor, and would not notice broken pipes because Rust programs do not.
#[expect(unsafe_code, reason = "changing a signal's disposition has no safe wrapper")]
pub(crate) fn reset_signals() -> nix::Result<()> {
    // SAFETY: the default disposition runs no code of ours.
    unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) }?;
    SigSet::empty().thread_set_mask()
}
