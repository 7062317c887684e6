//! The program under test.

use std::process::{Command, Stdio};

use rubelet_testbed::{Embedded, Place};

fn command(place: &Place) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.arg("runtime").arg("--socket").arg(place.socket()).arg("--data-dir").arg(place.data());
    command.env_remove("RUST_LOG");
    command
}

/// Starts `rubelet runtime`, with its log in the file `log` in its folder; `None`, with a message, where it cannot run.
pub(crate) fn start(name: &str) -> Option<Embedded> {
    Embedded::start(name, |place| {
        let log = std::fs::File::create(place.dir().join("log")).expect("a log");
        let mut command = command(place);
        command.stdout(Stdio::null()).stderr(log);
        command
    })
}
