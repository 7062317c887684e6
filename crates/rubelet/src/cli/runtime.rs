//! `rubelet runtime`: the embedded runtime alone, for crictl, a kubelet, or another agent.

use std::path::PathBuf;
use std::process::ExitCode;

use rubelet_runtime::embedded::{Options, serve};

use super::fail;
use crate::exit::Failure;

/// Arguments of `rubelet runtime`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen for CRI calls
    #[arg(long, value_name = "PATH", default_value = "/run/rubelet/runtime.sock")]
    socket: PathBuf,
    /// Where sandboxes, containers and images are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/rubelet")]
    data_dir: PathBuf,
    /// Where the CNI configuration is; without it, pods off the host's network have loopback only
    #[arg(long, value_name = "DIR")]
    cni_conf_dir: Option<PathBuf>,
    /// Where CNI plugins are; may be given more than once
    #[arg(long, value_name = "DIR", default_values = ["/opt/cni/bin", "/usr/lib/cni"])]
    cni_bin_dir: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let options = Options {
        socket: args.socket.clone(),
        data_dir: args.data_dir.clone(),
        cni_conf_dir: args.cni_conf_dir.clone(),
        cni_bin_dirs: args.cni_bin_dir.clone(),
        ..Options::default()
    };
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(Failure::System, &error),
    };
    match runtime.block_on(serve(options, stop())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(Failure::System, &error),
    }
}

/// Ready when somebody wants us to end. Containers go on.
async fn stop() {
    let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
