//! The `rubelet` program: the command line, and nothing that belongs into a library.

mod backlog;
mod behind;
mod clean;
mod cli;
mod columns;
mod count;
mod describe;
mod doctor;
mod endpoint;
mod exit;
mod home;
mod http;
mod last_agent;
mod local;
mod log;
mod logs;
mod place;
mod pods;
mod printer;
mod process;
mod recording;
mod run;
mod runtime_kind;
mod signals;
mod span;
mod summary;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
