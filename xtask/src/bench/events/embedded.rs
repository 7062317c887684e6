//! The embedded runtime as a separate process.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rubelet_testbed::wait;

const LIMIT: Duration = Duration::from_secs(30);

/// Dropping it ends the process; whoever created pods on it has removed them.
pub(in super::super) struct Embedded {
    child: Child,
    folder: tempfile::TempDir,
}

impl Embedded {
    /// The machine's own root filesystem, which is always there.
    pub(in super::super) const IMAGE: &'static str = "host";

    pub(in super::super) fn start(rubelet: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("rbl").tempdir()?;
        let socket = folder.path().join("s");
        let child = Command::new(rubelet)
            .args(["runtime", "--socket"])
            .arg(&socket)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let runtime = Self { child, folder };
        wait::until(LIMIT, || UnixStream::connect(&socket).ok()).context("the runtime does not answer")?;
        Ok(runtime)
    }

    pub(in super::super) fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.path().join("s").display())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
