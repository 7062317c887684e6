//! The project's own commands, one file per command: a new one is a module, a variant of [`Command`] and a line in
//! [`main`].

mod bench;
mod conformance;
mod critest;
mod go_tools;
mod machine;
mod packages;
mod prepare;
mod run;
mod soak;
mod sweep;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prepare this machine for the tests, then run all of them
    Test(test::Args),
    /// Only prepare this machine: install missing packages, build runtimes with Go
    Prepare,
    /// Remove what an interrupted test run left behind: processes, mounts, networks, folders
    Sweep,
    /// Run the upstream conformance tests against the embedded runtime
    Critest(critest::Args),
    /// Record what a kubelet reports for the pods of the conformance tests
    #[command(subcommand)]
    Conformance(conformance::Conformance),
    /// Measure performance and resource usage
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Run the tests that play random histories, for as long as you like
    #[command(subcommand)]
    Soak(soak::Soak),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(args) => test::run(&args),
        Command::Prepare => prepare::run(),
        Command::Sweep => sweep::run(),
        Command::Critest(args) => critest::run(&args),
        Command::Conformance(conformance) => conformance::run(&conformance),
        Command::Bench(bench) => bench::run(&bench),
        Command::Soak(soak) => soak::run(&soak),
    };
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    // Not returned from main: that would add a backtrace whenever one is enabled for the tests.
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
