//! How a pod is, in the words of the Kubernetes API. Pure: what the runtime says, what was said before, and what stands in
//! the way, in; a `PodStatus`, out.

mod conditions;
mod containers;
mod phase;
mod rejection;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodStatus as ApiStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_model::{ContainerId, PodStatus, UnixNanos};

use crate::pod::{qos_class, uses_host_network};
use crate::probe::Verdicts;

pub(crate) use phase::Phase;
pub(crate) use rejection::Rejection;

/// What keeps a container from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The kubelet's word for it: `CrashLoopBackOff`, `ErrImagePull`, …
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// What a status is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) runtime: &'a PodStatus,
    /// What was said before.
    pub(crate) before: Option<&'a ApiStatus>,
    /// What keeps which container from running.
    pub(crate) troubles: &'a BTreeMap<Arc<str>, Trouble>,
    pub(crate) verdicts: &'a Verdicts,
    /// What ended containers have left to say.
    pub(crate) last_words: &'a BTreeMap<ContainerId, String>,
    /// Whether nothing of the pod will run any more.
    pub(crate) is_over: bool,
    /// Whether the pod needs a sandbox that it does not have.
    pub(crate) lacks_sandbox: bool,
    /// Before the id of every container: `containerd` in `containerd://1234`.
    pub(crate) runtime_name: &'a str,
    pub(crate) host_ips: &'a [IpAddr],
    pub(crate) now: UnixNanos,
}

/// The status of a pod.
pub(crate) fn generate(inputs: Inputs<'_>) -> ApiStatus {
    let Inputs { pod, runtime, before, host_ips, now, .. } = inputs;
    let init = containers::init(inputs);
    let regular = containers::regular(inputs);
    let computed = phase::of(inputs, &init, &regular);
    let said = before.and_then(|before| before.phase.as_deref()).and_then(Phase::read);
    // What has ended stays as it ended.
    let phase = said.filter(|said| said.is_terminal()).unwrap_or(computed);
    let kept = before.filter(|_| said == Some(phase));
    let ips: &[IpAddr] = if uses_host_network(pod) { host_ips } else { &runtime.ips };
    let text = |ip: &IpAddr| ip.to_string();
    ApiStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: kept.and_then(|before| before.reason.clone()),
        message: kept.and_then(|before| before.message.clone()),
        conditions: Some(conditions::of(inputs, phase, &init, &regular)),
        init_container_statuses: Some(init).filter(|all| !all.is_empty()),
        container_statuses: Some(regular).filter(|all| !all.is_empty()),
        host_ip: host_ips.first().map(text),
        host_ips: Some(host_ips.iter().map(|ip| HostIP { ip: text(ip) }).collect()),
        pod_ip: ips.first().map(text),
        pod_ips: Some(ips.iter().map(|ip| PodIP { ip: text(ip) }).collect()),
        qos_class: Some(qos_class(pod).as_str().to_owned()),
        start_time: before.and_then(|before| before.start_time.clone()).or_else(|| time(now)),
        observed_generation: pod.metadata.generation,
        ..ApiStatus::default()
    }
}

/// A moment of the API; `None` if it was never told.
fn time(at: UnixNanos) -> Option<Time> {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok()?;
    at.is_set().then_some(Time(timestamp))
}
