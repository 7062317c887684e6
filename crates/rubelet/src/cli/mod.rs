//! The command line: one file per command.

mod completions;
mod describe;
mod doctor;
mod events;
mod exec;
mod image;
mod logs;
mod one_pod;
mod output;
mod ps;
mod record;
mod replay;
mod run;
mod runtime;
mod stop;
#[cfg(test)]
mod testkit;
mod watch;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::clean::clean_lines;
use crate::exit::Failure;
use crate::log::Log;

/// Keeps pods running, and shows what a container runtime does
#[derive(Debug, Parser)]
#[command(name = "rubelet", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print shell completions
    Completions(completions::Args),
    /// Show everything known about a pod
    Describe(describe::Args),
    /// Find out what is wrong with the agent or a runtime, and what to do about it; changes nothing
    Doctor(doctor::Args),
    /// Show what happened to pods
    Events(events::Args),
    /// Run a command in a container
    Exec(exec::Args),
    /// Import, pull, list and remove the images of the embedded runtime
    Image(image::Args),
    /// Print the logs of a container
    Logs(logs::Args),
    /// Show the pods of this machine
    Ps(ps::Args),
    /// Record what a runtime does to its pods, for `rubelet replay`; changes nothing
    Record(record::Args),
    /// Replay a recording: the same events, in the same order
    Replay(replay::Args),
    /// Run the pods of manifests, and keep them running
    Run(run::Args),
    /// Run the embedded container runtime alone, for crictl, a kubelet or another agent
    Runtime(runtime::Args),
    /// Stop pods
    Stop(stop::Args),
    /// Show pod events of a runtime as they happen; changes nothing
    Watch(watch::Args),
}

pub(crate) fn main() -> ExitCode {
    // This comes first: a shim must not pay for parsing a command line that is not its own.
    if let Some(code) = rubelet_runtime::embedded::shim::intercept() {
        return code;
    }
    match Cli::parse().command {
        Command::Completions(args) => completions::run(&args),
        Command::Describe(args) => describe::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Image(args) => image::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Runtime(args) => runtime::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Watch(args) => watch::run(&args),
    }
}

/// Sets the umask. Containers must be able to access the files that are created for them, whatever user they run as and
/// whatever umask this process has inherited.
fn set_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
}

/// Runs a command that mostly waits. A task that is stuck, such as a printer in a pipe that nobody reads, does not keep
/// the process from ending.
fn on_one_thread(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            runtime.shutdown_background();
            code
        }
        Err(error) => fail(Failure::System, &error),
    }
}

/// Prints a text. A reader that is gone is not a failure.
fn show(text: &str) -> io::Result<()> {
    pass_on(text.as_bytes(), &mut anstream::stdout())
}

/// Writes all bytes. A reader that is gone is not a failure.
fn pass_on(bytes: &[u8], out: &mut impl io::Write) -> io::Result<()> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown,
    }
}

/// Prints a text, and returns the exit code for it.
fn end_with(text: &str) -> ExitCode {
    match show(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(Failure::System, &cannot_print(&error)),
    }
}

fn cannot_print(error: &io::Error) -> String {
    format!("cannot print: {error}")
}

/// Prints an error on standard error, and returns the exit code for it. A pipe that nobody reads does not keep the
/// process from ending.
fn fail(failure: Failure, error: &dyn Display) -> ExitCode {
    let log = Log::default();
    log.start_on_stderr();
    log.print(&complaint(error));
    log.end();
    failure.into()
}

fn complaint(error: &dyn Display) -> String {
    format!("{ERROR}error:{ERROR:#} {}", clean_lines(&error.to_string()))
}

const ERROR: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

#[cfg(test)]
mod tests {
    use std::io;

    use clap::{CommandFactory, Parser as _};

    /// A writer that accepts everything, and fails when it is flushed.
    struct Full(io::ErrorKind);

    impl io::Write for Full {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn what_cannot_be_written_is_told_unless_nobody_reads_it() {
        let mut taken = Vec::new();
        super::pass_on(b"\xff\x00", &mut taken).unwrap();
        assert_eq!(taken, b"\xff\x00");
        assert!(super::pass_on(b"x", &mut Full(io::ErrorKind::BrokenPipe)).is_ok());
        let error = super::pass_on(b"x", &mut Full(io::ErrorKind::StorageFull)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn the_unit_starts_what_there_is() {
        let unit = include_str!("../../../../packaging/rubelet.service");
        let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let words = value("ExecStart").expect("it starts something").split(' ');
        let cli = super::Cli::try_parse_from(words).expect("it is understood");
        assert!(matches!(cli.command, super::Command::Run(_)));
        assert_eq!(value("Type"), Some("notify"));
        assert_eq!(value("KillMode"), Some("process"), "shims are not ended with it");
        let usage = std::process::ExitCode::from(crate::exit::Failure::Usage);
        let prevents = value("RestartPreventExitStatus").expect("a code").parse::<u8>().expect("a code");
        assert_eq!(usage, std::process::ExitCode::from(prevents));
    }

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
