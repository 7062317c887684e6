//! Host ports: only one pod at a time can use each of them.

use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::{containers, init_containers, is_sidecar};

/// A host port that a pod wants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPort<'a> {
    /// `None` for any address.
    ip: Option<IpAddr>,
    protocol: &'a str,
    port: i32,
}

impl HostPort<'_> {
    fn conflicts(&self, other: &Self) -> bool {
        let meet = match (self.ip, other.ip) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        };
        meet && self.protocol == other.protocol && self.port == other.port
    }
}

fn wanted(pod: &Pod) -> impl Iterator<Item = HostPort<'_>> {
    let sidecars = init_containers(pod).iter().filter(|container| is_sidecar(container));
    let ports = containers(pod).iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| {
        let ip: Option<IpAddr> = port.host_ip.as_deref().and_then(|ip| ip.parse().ok());
        Some(HostPort {
            ip: ip.filter(|ip| *ip != IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            protocol: port.protocol.as_deref().unwrap_or("TCP"),
            port: port.host_port.filter(|port| *port > 0)?,
        })
    })
}

/// Whether all host ports that a pod wants are free.
pub(super) fn are_free<'a>(pod: &Pod, others: impl IntoIterator<Item = &'a Pod>) -> bool {
    let mine: Vec<HostPort<'_>> = wanted(pod).collect();
    if mine.is_empty() {
        return true;
    }
    let is_mine = |theirs: &HostPort<'_>| mine.iter().any(|mine| mine.conflicts(theirs));
    !others.into_iter().flat_map(wanted).any(|theirs| is_mine(&theirs))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;
    use crate::pod::testkit;

    fn pod(port: i32, protocol: &str, ip: &str) -> Pod {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        pod.spec.as_mut().unwrap().containers[0].ports = Some(vec![ContainerPort {
            container_port: 80,
            host_port: Some(port),
            protocol: Some(protocol.to_owned()),
            host_ip: Some(ip.to_owned()),
            ..ContainerPort::default()
        }]);
        pod
    }

    #[test]
    fn a_port_of_an_address_is_had_once() {
        let table = [
            (pod(80, "TCP", ""), pod(80, "TCP", ""), false),
            (pod(80, "TCP", ""), pod(81, "TCP", ""), true),
            (pod(80, "TCP", ""), pod(80, "UDP", ""), true),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", "10.0.0.2"), true),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", "0.0.0.0"), false),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", ""), false),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", "10.0.0.1"), false),
            (pod(0, "TCP", ""), pod(0, "TCP", ""), true),
        ];
        for (one, other, wanted) in table {
            assert_eq!(are_free(&one, [&other]), wanted, "{:?} {:?}", one.spec, other.spec);
        }
        assert!(are_free(&pod(80, "TCP", ""), []));
    }
}
