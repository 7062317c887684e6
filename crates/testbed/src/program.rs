//! The search for programs as a daemon started by root would do it, and the execution of short ones.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// Searched after `PATH`: a shell of root that is not a login shell lacks `sbin`, where runc and ip may be, and Go's
/// own installer does not change `PATH`.
const FURTHER_FOLDERS: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin"];

/// Returns the path of this program, if it is installed.
pub fn find(name: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Returns a `PATH` for a child process: the given folders, then those that [`find`] searches.
pub(crate) fn search_path(first: Option<&Path>) -> OsString {
    let folders = first.map(Path::to_path_buf).into_iter().chain(folders());
    // Only a folder with a colon in its name cannot be joined, and no search ever finds such a folder.
    std::env::join_paths(folders.filter(|folder| !folder.as_os_str().as_encoded_bytes().contains(&b':')))
        .unwrap_or_default()
}

pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Runs it until it ends, and returns what it printed, or an error with what it complained about.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|source| Error::Spawn { command: command_line(command), source })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Error::Command { command: command_line(command), status: done.status, stderr })
}

pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(FURTHER_FOLDERS.iter().map(PathBuf::from)).collect()
}
