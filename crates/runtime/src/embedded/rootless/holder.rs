//! The process that holds a user namespace and a mount namespace, and does nothing else.

use std::io::{Read as _, Write as _};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};

use crate::embedded::error::{Error, Result};
use crate::memory;

/// A report to the process that started it, in one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The namespaces exist, still without ids.
    Ready,
    /// The kernel refused.
    Refused(i32),
}

impl Report {
    fn line(&self) -> String {
        match self {
            Self::Ready => "ready\n".to_owned(),
            Self::Refused(errno) => format!("refused {errno}\n"),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None => (line == "ready").then_some(Self::Ready),
            Some(("refused", errno)) => errno.parse().ok().map(Self::Refused),
            Some(_) => None,
        }
    }
}

/// Entry point of the process. It ends only when it is killed.
pub(crate) fn main() -> Result<()> {
    let tell = |report: &Report| {
        let mut stdout = std::io::stdout();
        let _ = stdout.write_all(report.line().as_bytes());
        let _ = stdout.flush();
    };
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS) {
        tell(&Report::Refused(errno as i32));
        return Err(Error::io("make a user namespace", errno));
    }
    tell(&Report::Ready);
    // Wait until the ids are mapped, or the parent is gone.
    let _ = std::io::stdin().read(&mut [0; 1]);
    // Mounts of the machine appear here; ours do not appear there.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| Error::io("isolate mounts", errno))?;
    let _ = rustix::process::setsid();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| Error::io("open /dev/null", error))?;
    let _ = rustix::stdio::dup2_stdin(&null);
    memory::give_back_file_pages();
    // Last: this lets the parent continue.
    let _ = rustix::stdio::dup2_stdout(&null);
    loop {
        nix::unistd::pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        for report in [Report::Ready, Report::Refused(1)] {
            assert_eq!(Report::parse(report.line().trim_end()), Some(report));
        }
        for line in ["", "refused", "refused x", "yes"] {
            assert_eq!(Report::parse(line), None, "{line}");
        }
    }
}
