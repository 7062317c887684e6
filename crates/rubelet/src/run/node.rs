//! What this machine tells its pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use rubelet_agent::downward::NodeFacts;
use rubelet_agent::resource::Quantity;

/// The name of this machine, as a node: lower case.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

/// The facts of this machine.
pub(super) fn facts() -> NodeFacts {
    let mut allocatable = BTreeMap::new();
    if let Ok(cpus) = std::thread::available_parallelism() {
        allocatable.insert("cpu".to_owned(), units(cpus.get()));
    }
    if let Some(memory) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text)) {
        allocatable.insert("memory".to_owned(), Quantity::from_units(memory));
    }
    NodeFacts { host_ips: address().into_iter().collect(), allocatable }
}

/// Whether the machine has one hierarchy of control groups, the second version.
pub(super) fn has_unified_cgroups() -> bool {
    std::path::Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

fn units(count: usize) -> Quantity {
    Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The address by which this machine would talk to others. Nothing is sent.
fn address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address of the range for documentation: it only selects a route.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified())
}

/// The machine's memory in bytes, by `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<i64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: i64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kilobytes() {
        assert_eq!(total_memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(total_memory("nothing"), None);
    }
}
