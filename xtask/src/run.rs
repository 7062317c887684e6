//! Runs a program in the foreground, prints what is run, and makes a failure an error.

use std::process::Command;

use anyhow::{Context, bail};

/// Returns the cargo that runs this program, without the variables that describe this package: for some build scripts
/// these would be a changed environment, and everything that depends on them would be rebuilt.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_about_this_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Returns whether cargo sets this variable for the program that it runs.
fn is_about_this_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| variable.starts_with(prefix))
}

pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = command_line(command);
    eprintln!("+ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_cargo_are_passed_on_and_its_words_about_us_are_not() {
        for (variable, wanted) in [
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_MANIFEST_PATH", true),
            ("CARGO_HOME", false),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_BUILD_JOBS", false),
            ("CARGO_TERM_COLOR", false),
            ("PATH", false),
        ] {
            assert_eq!(is_about_this_package(variable), wanted, "{variable}");
        }
    }
}
