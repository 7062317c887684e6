//! The project's own commands. One file a command: a new one is a module, a variant of [`Command`] and a
//! line in [`main`].

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
    /// Make this machine ready for the tests, then run all of them
    Test(test::Args),
    /// Only make this machine ready: install missing packages, build runtimes with Go
    Prepare,
    /// Take down what an interrupted test run left: processes, mounts, networks, folders
    Sweep,
    /// Run upstream's conformance tests against the embedded runtime
    Critest(critest::Args),
    /// What a kubelet reports for the pods of the conformance tests
    #[command(subcommand)]
    Conformance(conformance::Conformance),
    /// Measure what things cost
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Play random histories for as long as you like
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
    // Not by returning it from main: that adds a backtrace wherever one is wanted for tests.
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
