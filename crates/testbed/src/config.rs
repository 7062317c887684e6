//! The daemon's configuration, which shares nothing with any other containerd on the machine.

use std::path::{Path, PathBuf};

use crate::requirement::CNI_BIN_DIR;
use crate::{Flavor, PAUSE};

pub(crate) const CONFIG: &str = "config.toml";
pub(crate) const SOCKET: &str = "containerd.sock";
pub(crate) const LOG: &str = "containerd.log";
pub(crate) const CNI_CONF_DIR: &str = "cni";

pub(crate) fn state_dir(dir: &Path) -> PathBuf {
    dir.join("state")
}

/// Returns the configuration file.
///
/// - `restrict_oom_score_adj`: root of a test machine may lack `CAP_SYS_RESOURCE`, and runc then fails on a negative
///   score.
/// - A 2.x samples the CPU use of every container once a second, even if nobody asks, and would never be idle; that is
///   switched off.
/// - `runc` is for a 2.x; without it, the machine's own is used.
/// - Network namespaces are pinned below the state folder, so that they can be found and released.
pub(crate) fn toml(flavor: Flavor, runc: Option<&Path>, dir: &Path) -> String {
    let (version, body) = match flavor {
        Flavor::V1_6 => (2, v1_6(dir)),
        Flavor::V2 => (3, v2(dir) + &runc.map(binary_name).unwrap_or_default()),
    };
    let at = dir.display();
    format!(
        r#"version = {version}
root = "{at}/root"
state = "{state}"

[grpc]
address = "{at}/{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = "{at}/opt"
{body}"#,
        state = state_dir(dir).display()
    )
}

fn v1_6(dir: &Path) -> String {
    let at = dir.display();
    format!(
        r#"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_BIN_DIR}"
conf_dir = "{at}/{CNI_CONF_DIR}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{at}/runc"
"#
    )
}

/// Returns the line with the binary name, which belongs to the last table of the configuration.
fn binary_name(runc: &Path) -> String {
    format!("BinaryName = \"{}\"\n", runc.display())
}

fn v2(dir: &Path) -> String {
    let at = dir.display();
    format!(
        r#"
[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.monitor.container.v1.restart"]
interval = "1h"

[plugins."io.containerd.shim.v1.manager"]
socket_dir = "{at}/s"

[plugins."io.containerd.cri.v1.images"]
stats_collect_period = 3600

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
stats_collect_period = "1h"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI_BIN_DIR}"]
conf_dir = "{at}/{CNI_CONF_DIR}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
Root = "{at}/runc"
"#
    )
}
