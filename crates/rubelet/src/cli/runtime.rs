//! `rubelet runtime`: runs the embedded runtime alone, for crictl, a kubelet, or another agent.

use std::path::PathBuf;
use std::process::ExitCode;

use rubelet_runtime::embedded::{Options, Root, serve};

use super::{complaint, fail, set_umask};
use crate::exit::Failure;
use crate::home::{DataDir, Home};
use crate::log::Log;

/// Arguments of `rubelet runtime`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen for CRI calls
    ///
    /// Default: /run/rubelet/runtime.sock; for users other than root, rubelet/runtime.sock in `$XDG_RUNTIME_DIR`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    data: DataDir,
    /// Folder with the CNI configuration; without it, pods that are not on the host's network have loopback only
    #[arg(long, value_name = "DIR")]
    cni_conf_dir: Option<PathBuf>,
    /// Folder with CNI plugins; may be given more than once
    #[arg(long, value_name = "DIR", default_values = ["/opt/cni/bin", "/usr/lib/cni"])]
    cni_bin_dir: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    set_umask();
    let home = Home::of_this_user();
    let mut options = Options {
        socket: args.socket.clone().unwrap_or_else(|| home.socket()),
        data_dir: args.data.dir(&home),
        cni_conf_dir: args.cni_conf_dir.clone(),
        cni_bin_dirs: args.cni_bin_dir.clone(),
        ..Options::default()
    };
    let log = Log::default();
    log_to(log.clone());
    // This must happen before the first thread starts.
    let root = match Root::become_root(&mut options) {
        Ok(root) => root,
        Err(error) => return fail(Failure::System, &error),
    };
    log.start_on_stderr();
    rubelet_runtime::memory::map_only_what_is_touched();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(Failure::System, &error),
    };
    let served = runtime.block_on(serve(options.clone(), stop()));
    // This ends every task that uses the data folder.
    drop(runtime);
    root.release(&options);
    if let Err(error) = &served {
        log.print(&complaint(error));
    }
    log.end();
    served.map_or_else(|_| Failure::System.into(), |()| ExitCode::SUCCESS)
}

/// Sets up logging, coloured on a terminal only; `RUST_LOG` sets the level.
fn log_to(log: Log) {
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_writer(move || log.clone())
        .with_ansi(colour)
        .with_env_filter(filter)
        .init();
}

/// Waits for a request to end. Containers keep running.
async fn stop() {
    let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
