//! The addresses of a pod and of its node, as the API shows them: at most one of each family, the node's own first.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus as ApiStatus};

use super::{Inputs, Phase};
use crate::pod::uses_host_network;

/// Returns the addresses of a node.
pub(super) fn of_host(host_ips: &[IpAddr]) -> Vec<HostIP> {
    pair(host_ips, host_ips).into_iter().map(|ip| HostIP { ip }).collect()
}

/// Returns the addresses of a pod. On the host network, these are the host's at the time when the pod got them.
pub(super) fn of_pod(inputs: Inputs<'_>, phase: Phase) -> Vec<PodIP> {
    let before = || {
        let said = inputs.before.and_then(|before: &ApiStatus| before.pod_ips.clone());
        said.filter(|ips| !ips.is_empty())
    };
    let shown = |ips: &[IpAddr]| {
        let pair = pair(ips, inputs.host_ips);
        pair.into_iter().map(|ip| PodIP { ip }).collect::<Vec<_>>()
    };
    if uses_host_network(inputs.pod) {
        return before().unwrap_or_else(|| shown(inputs.host_ips));
    }
    let own = shown(&inputs.runtime.ips);
    // The address of a finished pod is still worth knowing when the runtime has forgotten it.
    if own.is_empty() && phase.is_terminal() { before().unwrap_or_default() } else { own }
}

/// Returns the first address of the node's family, then the first of the other family.
fn pair(ips: &[IpAddr], host_ips: &[IpAddr]) -> Vec<String> {
    let four_first = host_ips.first().is_none_or(IpAddr::is_ipv4);
    let first_of = |four: bool| ips.iter().find(|ip| ip.is_ipv4() == four).map(ToString::to_string);
    [first_of(four_first), first_of(!four_first)].into_iter().flatten().collect()
}
