//! Keys in the kernel: what whoever started the runtime has is no container's.

use std::ffi::CStr;

use nix::libc;

use crate::subject::embedded;
use crate::with;

const NAME: &CStr = c"rubelet-test-key";
/// Only who has the keyring that a key is in may do anything with it, which includes seeing it.
const HOLDERS_ONLY: libc::c_ulong = 0x3f00_0000;

/// Has this thread, and what it starts, begin a session of keys with one key in it. False if this kernel has no keys.
#[expect(unsafe_code, reason = "keys have no safe wrapper")]
fn begin_with_a_key() -> bool {
    let nothing = std::ptr::null::<libc::c_char>();
    let value = b"secret";
    // SAFETY: strings that end with a zero, and a value of the length that is told, all of which outlive the calls.
    unsafe {
        if libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, nothing) < 0 {
            return false;
        }
        let key = libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            NAME.as_ptr(),
            value.as_ptr(),
            value.len(),
            libc::KEY_SPEC_SESSION_KEYRING,
        );
        assert!(key > 0, "a key");
        assert_eq!(libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SETPERM, key, HOLDERS_ONLY), 0);
    }
    true
}

#[test]
fn a_container_has_no_keys_of_whoever_started_the_runtime() {
    let name = NAME.to_str().expect("plain");
    let is_seen = || std::fs::read_to_string("/proc/keys").expect("keys").contains(name);
    if !begin_with_a_key() {
        return eprintln!("SKIPPED: this kernel has no keys");
    }
    assert!(is_seen(), "by who has it");
    with(embedded("keys", None), async |_, cri| {
        let script = format!("grep -c {name} /proc/keys");
        let mut config = cri.container_config(&format!("{script}; exec sleep 3600"));
        let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
        // Or nobody sees anything.
        context.masked_paths = vec!["/none".to_owned()];
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        let told = cri.exec(&id, &script, 0).await.expect("an answer");
        assert_eq!(told.stdout, b"0\n", "{told:?}");
        cri.stop(&id, 0).await.expect("stops");
        let lines = cri.log(&cri.exited(&id).await).await;
        assert!(lines.len() == 1 && lines[0].ends_with(" 0"), "{lines:?}");
    });
    assert!(is_seen(), "still");
}
