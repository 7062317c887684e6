//! The `rubelet` binary: the command line, and nothing that a library could do.

mod cli;
mod doctor;
mod endpoint;
mod exit;
mod home;
mod runtime_kind;
mod span;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
