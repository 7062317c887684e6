//! The command line: one file a command.

use std::process::ExitCode;

use clap::Parser;

/// Keeps pods running, and shows what a container runtime does.
#[derive(Debug, Parser)]
#[command(name = "rubelet", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {}

pub(crate) fn main() -> ExitCode {
    match Cli::parse().command {}
}
