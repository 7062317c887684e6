//! The embedded runtime alone, as small as possible: what `rubelet runtime` runs, for this crate's own tests.
//!
//! Usage: `rubelet-runtime SOCKET DATA_DIR [CNI_CONF_DIR]`. The CNI plugins are in `bin`, beside `CNI_CONF_DIR`.

use std::path::PathBuf;
use std::process::ExitCode;

use rubelet_runtime::embedded::{Options, serve, shim};

fn main() -> ExitCode {
    if let Some(code) = shim::intercept() {
        return code;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(socket), Some(data_dir)) = (args.next(), args.next()) else {
        eprintln!("usage: rubelet-runtime SOCKET DATA_DIR [CNI_CONF_DIR]");
        return ExitCode::from(2);
    };
    let cni_conf_dir = args.next();
    let beside = cni_conf_dir.as_ref().and_then(|dir| Some(dir.parent()?.join("bin")));
    let cni_bin_dirs = beside.into_iter().chain(Options::default().cni_bin_dirs).collect();
    let options = Options { socket, data_dir, cni_conf_dir, cni_bin_dirs, ..Options::default() };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("rubelet-runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(options, std::future::pending())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rubelet-runtime: {error}");
            ExitCode::FAILURE
        }
    }
}
