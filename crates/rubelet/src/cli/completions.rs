//! `rubelet completions`: shell completion scripts for this command line.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

/// The arguments of `rubelet completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: rubelet completions bash > /etc/bash_completion.d/rubelet\n\
For zsh:  rubelet completions zsh > \"${fpath[1]}/_rubelet\"\n\
For fish: rubelet completions fish > ~/.config/fish/completions/rubelet.fish")]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> ExitCode {
    super::end_with(&script(args.shell))
}

fn script(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut super::Cli::command(), "rubelet", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_shell_is_told_of_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in crate::cli::Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
