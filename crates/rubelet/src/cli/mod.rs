//! The command line: one file a command.

mod image;
mod run;
mod runtime;
mod watch;

use std::fmt::Display;
use std::process::ExitCode;

use clap::Parser;

use crate::exit::Failure;

/// Keeps pods running, and shows what a container runtime does.
#[derive(Debug, Parser)]
#[command(name = "rubelet", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Import, pull, list and remove the images of the embedded runtime
    Image(image::Args),
    /// Keep the pods of manifests running
    Run(run::Args),
    /// Run the embedded container runtime alone, for crictl, a kubelet or another agent
    Runtime(runtime::Args),
    /// Show what happens to the pods of a runtime, as it happens; changes nothing
    Watch(watch::Args),
}

pub(crate) fn main() -> ExitCode {
    // First of all: a shim must not pay for a command line that it does not have.
    if let Some(code) = rubelet_runtime::embedded::shim::intercept() {
        return code;
    }
    match Cli::parse().command {
        Command::Image(args) => image::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Runtime(args) => runtime::run(&args),
        Command::Watch(args) => watch::run(&args),
    }
}

/// Says what went wrong, on standard error, and how the command ends for it.
fn fail(failure: Failure, error: &dyn Display) -> ExitCode {
    anstream::eprintln!("{}error:{:#} {error}", ERROR, ERROR);
    failure.into()
}

const ERROR: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
