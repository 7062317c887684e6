//! The shim: one small process per container, a hidden subcommand of the same binary.
//!
//! It is the container's parent, so it learns of every exit and its code; it writes the log; it outlives the runtime.
//! It has a single thread, sleeps in one `poll`, and does not use the memory-hungry container library: a helper process
//! (`create`) builds the container, makes it a child of the shim and exits.
//!
//! ```text
//! runtime ──listening socket as fd 0──▶ shim ──pipes──▶ helper ──clone──▶ container (child of the shim)
//!    └──────connects, reads lines────────┘
//! ```
//! The runtime creates the socket before the shim exists. So from the first moment to the last, "can I connect?"
//! answers "is there a live shim?", with no window in between and no pid that may have been reused.
//!
//! Lines from the shim: `started <pid> <nanos>`, `failed` or `exited` (both with `exit.json` on disk first). Lines to
//! the shim: `signal <n>`, `kill`, `reopen`, each answered by `ok` or `error <text>`. The line `exec` comes with three
//! descriptors and is answered by `command-exited <code>` or `command-failed <text>`: the shim forks, and the child
//! joins the container.

mod client;
mod commands;
pub(crate) mod create;
mod diary;
mod join;
mod line_log;
pub(crate) mod mount_ns;
mod payload;
mod places;
pub(crate) mod protocol;
mod reap;
mod serve;
pub(crate) mod settings;
mod starved;
mod volumes;
mod working_dir;

use std::process::ExitCode;

/// Hidden subcommand: supervises the container of the current folder.
pub const SHIM: &str = "shim";
/// Hidden subcommand: builds and starts the container of the current folder, for a shim.
pub const CREATE: &str = "shim-create";
/// Hidden subcommand: holds a user namespace, for a runtime without root.
pub(crate) const HOLDER: &str = "namespace-holder";

/// Runs one of the hidden subcommands, if the arguments name one.
///
/// Must be the first call in `main`: the shim must not pay for anything that it does not use.
#[must_use]
pub fn intercept() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next()?.as_str() {
        SHIM => serve::main(),
        CREATE => create::main(args.next().as_deref()),
        HOLDER => super::rootless::holder::main(),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Stderr is the container's log or nothing at all, so this is for people who try the command by hand.
            eprintln!("rubelet: {error}");
            ExitCode::FAILURE
        }
    })
}
