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
    log_to_stderr();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(Failure::System, &error),
    };
    match runtime.block_on(serve(options, stop())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(Failure::System, &error),
    }
}

/// Coloured on a terminal only; `RUST_LOG` says how much.
fn log_to_stderr() {
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colour).with_env_filter(filter).init();
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
