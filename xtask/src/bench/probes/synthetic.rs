//! A runtime on which commands cost nothing, so that only the agent itself is the limit.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context;
use rubelet_runtime::synthetic::{Config, serve_forever};
use rubelet_testbed::wait;

const LIMIT: Duration = Duration::from_secs(30);

/// The runtime, in a thread of its own until the process ends.
pub(super) struct Synthetic {
    folder: tempfile::TempDir,
}

impl Synthetic {
    pub(super) const NAME: &'static str = "synthetic";
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("rbl").tempdir()?;
        let socket = folder.path().join("s");
        let config = Config::new(&socket);
        std::thread::Builder::new().name("synthetic".to_owned()).spawn(move || {
            let Err(error) = serve_forever(config);
            eprintln!("the synthetic runtime cannot begin: {error}");
        })?;
        wait::until(LIMIT, || UnixStream::connect(&socket).ok()).context("the runtime does not answer")?;
        Ok(Self { folder })
    }

    pub(super) fn endpoint(&self) -> String {
        format!("unix://{}", self.folder.path().join("s").display())
    }
}
