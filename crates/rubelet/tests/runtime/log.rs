//! What it says about itself.

use crate::program;

#[test]
fn a_log_that_is_no_terminal_has_no_colours() {
    let Some(runtime) = program::start("log") else { return };
    let text = std::fs::read_to_string(runtime.dir().join("log")).expect("a log");
    assert!(text.contains("the embedded runtime listens"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}
