//! The status of a pod, in the terms of the Kubernetes API. Pure: takes what the runtime reports, the previous status
//! and what prevents containers from running; returns a `PodStatus`.
//!
//! ```text
//! runtime, spec, troubles, verdicts ─▶ generate ─▶ settle ─▶ the published status
//!                                          ▲         ▲
//!                                          └─ the previous status
//! ```

mod addresses;
mod conditions;
mod containers;
mod ends;
mod phase;
mod recalled;
mod rejection;
mod resize_pending;
mod resizing;
mod resources;
mod restarting;
mod settle;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rubelet_model::{ContainerId, PodStatus, UnixNanos};

use crate::admission::RuntimeFeatures;
use crate::manifest::annotation::is_static;
use crate::pod::{Grants, Replaced, qos_class};
use crate::probe::Verdicts;

pub(crate) use containers::is_lost;
pub(crate) use ends::new_ends;
pub(crate) use phase::Phase;
pub(crate) use recalled::recalled;
pub(crate) use rejection::Rejection;
pub(crate) use resize_pending::ResizePending;
pub(crate) use resizing::is_resizing;
pub(crate) use settle::{over_for_good, settle};

/// What keeps a container from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The kubelet's reason: `CrashLoopBackOff`, `ErrImagePull`, …
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The inputs of a status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) runtime: &'a PodStatus,
    /// The previous status.
    pub(crate) before: Option<&'a ApiStatus>,
    /// What keeps containers from running, by container.
    pub(crate) troubles: &'a BTreeMap<Arc<str>, Trouble>,
    /// The resources that containers were given.
    pub(crate) grants: &'a Grants,
    /// The containers that were ended in order to be restarted.
    pub(crate) replaced: &'a Replaced,
    pub(crate) verdicts: &'a Verdicts,
    /// The termination messages of ended containers.
    pub(crate) last_words: &'a BTreeMap<ContainerId, String>,
    /// Whether nothing of the pod will run any more.
    pub(crate) is_over: bool,
    /// Whether the pod needs a sandbox and has none.
    pub(crate) lacks_sandbox: bool,
    /// The prefix of every container ID: `containerd` in `containerd://1234`.
    pub(crate) runtime_name: &'a str,
    pub(crate) host_ips: &'a [IpAddr],
    /// The features of the runtime.
    pub(crate) features: RuntimeFeatures,
    /// Why the pod does not yet have the resources that its manifest requests.
    pub(crate) resize_pending: Option<&'a ResizePending>,
    /// Why it could not be given the resources that it was allotted.
    pub(crate) resize_error: Option<&'a str>,
}

/// Computes the status of a pod from the inputs alone; [`settle`] reconciles it with the previous one.
pub(crate) fn generate(inputs: Inputs<'_>) -> ApiStatus {
    let Inputs { pod, before, host_ips, .. } = inputs;
    let mut init = containers::init(inputs);
    let mut regular = containers::regular(inputs);
    let mut computed = phase::of(inputs, &init, &regular);
    if inputs.is_over {
        containers::end(pod, &mut init, &mut regular);
        // Only the API server keeps pods that neither exist nor have finished.
        if !computed.is_terminal() && !is_static(pod) {
            computed = Phase::Failed;
        }
    }
    let said = before.and_then(Phase::of);
    // A finished pod keeps its phase.
    let phase = said.filter(|said| said.is_terminal()).unwrap_or(computed);
    let kept = before.filter(|_| said == Some(phase));
    let allotted = resources::of_pod(pod);
    let held = resizing::held(inputs);
    let (host, own) = (addresses::of_host(host_ips), addresses::of_pod(inputs, phase));
    ApiStatus {
        phase: Some(phase.as_str().to_owned()),
        reason: kept.and_then(|before| before.reason.clone()),
        message: kept.and_then(|before| before.message.clone()),
        conditions: Some(conditions::of(inputs, phase, held.is_some(), &init, &regular)),
        init_container_statuses: Some(init).filter(|all| !all.is_empty()),
        container_statuses: Some(regular).filter(|all| !all.is_empty()),
        host_ip: host.first().map(|first| first.ip.clone()),
        host_ips: Some(host).filter(|all| !all.is_empty()),
        pod_ip: own.first().map(|first| first.ip.clone()),
        pod_ips: Some(own).filter(|all| !all.is_empty()),
        qos_class: Some(qos_class(pod).as_str().to_owned()),
        allocated_resources: allotted.as_ref().and_then(|resources| resources.requests.clone()),
        resources: held.as_ref().map_or(allotted, resources::of_pod),
        observed_generation: pod.metadata.generation,
        ..ApiStatus::default()
    }
}

/// Returns when a started container began or ended. As for a kubelet, zero is a valid time: 1970.
fn raw_time(at: UnixNanos) -> Option<Time> {
    jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok().map(Time)
}

/// Converts a time to the API's format; `None` if it was never reported.
fn time(at: UnixNanos) -> Option<Time> {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(at.0)).ok()?;
    at.is_set().then_some(Time(timestamp))
}
