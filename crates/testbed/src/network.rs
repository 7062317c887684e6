//! The private network of one runtime: a bridge and a subnet derived from its slot.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::slot::Slot;
use crate::teardown::names_in;
use crate::{Error, program};

/// Where the CNI library of every containerd stores the results of plugins; this cannot be configured.
const CNI_RESULTS: &str = "/var/lib/cni/results";

pub(crate) fn bridge(slot: &Slot) -> String {
    format!("rtb{}", slot.number())
}

/// The name of the CNI network.
fn name(slot: &Slot) -> String {
    format!("rubelet-testbed-{}", slot.number())
}

pub(crate) fn subnet(slot: &Slot) -> String {
    format!("10.213.{}.0/24", slot.number())
}

/// Returns a CNI configuration that gives each pod an address reachable from the host.
pub(crate) fn conflist(slot: &Slot) -> String {
    json!({
        "cniVersion": "1.0.0",
        "name": name(slot),
        "plugins": [{
            "type": "bridge",
            "bridge": bridge(slot),
            "isGateway": true,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": slot.dir().join("ipam"),
                "ranges": [[{ "subnet": subnet(slot) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
    .to_string()
}

/// Removes the bridge, and CNI's records of pods that no longer exist.
pub(crate) fn remove(slot: &Slot) -> Result<(), Error> {
    let bridge = bridge(slot);
    if Path::new("/sys/class/net").join(&bridge).exists() {
        let ip = program::find("ip").unwrap_or_else(|| "ip".into());
        program::output(Command::new(ip).args(["link", "delete", &bridge]))?;
    }
    let prefix = format!("{}-", name(slot));
    for result in names_in(Path::new(CNI_RESULTS)) {
        if let Some(pod) = result.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix("-eth0")) {
            // The loopback network has the same name for everybody; only the pod tells whose record it is.
            for left in [&result, &format!("cni-loopback-{pod}-lo")] {
                let _ = std::fs::remove_file(Path::new(CNI_RESULTS).join(left));
            }
        }
    }
    Ok(())
}
