//! What the runtime logs about itself.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rubelet_testbed::wait;

use crate::program;

#[test]
fn a_log_that_is_no_terminal_has_no_colours() {
    let Some(runtime) = program::start("log") else { return };
    let log = || std::fs::read_to_string(runtime.dir().join("log")).expect("a log");
    let listens = || Some(log()).filter(|text| text.contains("the embedded runtime is listening"));
    let text = wait::until(Duration::from_secs(20), listens).unwrap_or_else(|| panic!("{}", log()));
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn only_its_owner_may_use_the_socket() {
    let Some(runtime) = program::start("mode") else { return };
    let mode = std::fs::metadata(runtime.socket()).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
