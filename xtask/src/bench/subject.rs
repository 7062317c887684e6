//! The runtimes that are compared: each a separate process, with the same images.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use rubelet_cri::{Endpoint, Metrics, Options, RuntimeClient};
use rubelet_testbed::{Containerd, Embedded, Flavor, Group, image_archive, requirement};

use crate::run::{cargo, run};

/// Builds the release binary that users run, and returns its path, beside this one.
pub(super) fn build_rubelet() -> anyhow::Result<PathBuf> {
    run(cargo().args(["build", "--quiet", "--release", "--package", "rubelet"]))?;
    let path = std::env::current_exe()?.with_file_name("rubelet");
    if !path.exists() {
        bail!("{} is not there although it was just built", path.display());
    }
    Ok(path)
}

/// Starts `rubelet runtime` with the images of the test bed.
pub(super) fn embedded(rubelet: &Path) -> anyhow::Result<Embedded> {
    let program = rubelet.to_owned();
    let runtime = Embedded::start("bench", move |place| {
        let mut command = Command::new(&program);
        command.arg("runtime").arg("--socket").arg(place.socket()).arg("--data-dir").arg(place.data());
        command.env("RUST_LOG", "warn");
        command
    })
    .context("containers need root: run this as root")?;
    let archive = runtime.dir().join("images.tar");
    std::fs::write(&archive, image_archive()?)?;
    let mut import = Command::new(rubelet);
    import.args(["image", "import"]).arg(&archive).arg("--data-dir").arg(runtime.data());
    let imported = import.output()?;
    if !imported.status.success() {
        bail!("the images cannot be imported: {}", String::from_utf8_lossy(&imported.stderr));
    }
    Ok(runtime)
}

/// Starts the newest containerd on this machine.
pub(super) fn containerd() -> anyhow::Result<Containerd> {
    let flavor = [Flavor::V2, Flavor::V1_6].into_iter().find(|flavor| requirement::check(*flavor).is_empty());
    let flavor = flavor.context("no containerd to compare with: `cargo xtask prepare` sets one up")?;
    Ok(Containerd::start(flavor)?)
}

/// A runtime, reached through its socket.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) client: RuntimeClient,
    /// The folder for its pods' folders, logs and pipes.
    pub(super) dir: PathBuf,
    pub(super) group: Group,
}

impl Subject {
    pub(super) fn new(name: &str, socket: &Path, dir: &Path) -> anyhow::Result<Self> {
        let client = RuntimeClient::new(Endpoint::from_path(socket)?, Options::default(), Metrics::default());
        let group = Group::new(&format!("/rubelet-bench-{}-{}", name.replace(' ', "-"), std::process::id()));
        Ok(Self { name: name.to_owned(), client, dir: dir.to_owned(), group })
    }
}
