//! The downward API: what a pod can learn about itself with `fieldRef` and `resourceFieldRef`, in its environment and
//! volumes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use thiserror::Error;

use crate::manifest::Objects;
use crate::resource::{self, Quantity};

/// The facts about this node that its pods can see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its addresses, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// What its pods can use, by resource name. This is the limit of a container that has none.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// A pod, with everything that references in it may resolve to.
#[derive(Clone, Copy, Debug)]
pub struct PodFacts<'a> {
    /// The pod, valid and defaulted.
    pub pod: &'a Pod,
    /// The config maps and secrets of its source.
    pub objects: &'a Objects,
    /// The node it runs on.
    pub node: &'a NodeFacts,
    /// Its addresses; empty before its sandbox runs.
    pub pod_ips: &'a [IpAddr],
}

/// A reference that does not resolve. Validation already refuses most of these.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DownwardError {
    /// The field is not available to a pod.
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    /// The resource is not available to a container.
    #[error("unsupported container resource: {0}")]
    Resource(String),
    /// The selector names a container that the pod does not have.
    #[error("container {0:?} not found")]
    Container(String),
    /// The divisor is not a positive quantity.
    #[error("divisor {0:?} is not a quantity above zero")]
    Divisor(String),
    /// The node has no address yet; it may get one.
    #[error("the node has no address for {0} yet")]
    NoHostAddress(&'static str),
}

impl PodFacts<'_> {
    /// Returns the namespace of the pod.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the value of a field of the pod.
    ///
    /// # Errors
    ///
    /// If there is no such field, or it is not available.
    pub fn field(&self, path: &str) -> Result<String, DownwardError> {
        let meta = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        if let Some((map, key)) = subscript(path) {
            let map = match map {
                "metadata.labels" => &meta.labels,
                "metadata.annotations" => &meta.annotations,
                _ => return Err(DownwardError::Field(path.to_owned())),
            };
            return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
        }
        let hosts = &self.node.host_ips;
        Ok(match path {
            "metadata.name" => meta.name.clone().unwrap_or_default(),
            "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
            "metadata.uid" => meta.uid.clone().unwrap_or_default(),
            "metadata.labels" => lines(meta.labels.iter().flatten()),
            "metadata.annotations" => lines(meta.annotations.iter().flatten()),
            "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            "spec.serviceAccountName" => {
                spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
            }
            "status.hostIP" => joined(hosts.get(..1).ok_or(DownwardError::NoHostAddress("status.hostIP"))?),
            "status.hostIPs" if hosts.is_empty() => {
                return Err(DownwardError::NoHostAddress("status.hostIPs"));
            }
            "status.hostIPs" => joined(hosts),
            "status.podIP" => joined(self.pod_ips.get(..1).unwrap_or_default()),
            "status.podIPs" => joined(self.pod_ips),
            _ => return Err(DownwardError::Field(path.to_owned())),
        })
    }

    /// Returns a limit or request of a container, in units of the divisor, rounded up. `own` is used if the selector
    /// names no container.
    ///
    /// # Errors
    ///
    /// If the selector does not resolve.
    pub fn resource(
        &self,
        selector: &ResourceFieldSelector,
        own: Option<&Container>,
    ) -> Result<String, DownwardError> {
        let container = match (selector.container_name.as_deref().filter(|name| !name.is_empty()), own) {
            (None, Some(own)) => own,
            (name, _) => {
                let name = name.unwrap_or_default();
                self.container(name).ok_or_else(|| DownwardError::Container(name.to_owned()))?
            }
        };
        let (kind, resource) = selector.resource.split_once('.').unwrap_or_default();
        let known =
            matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
        let amount = match kind {
            "limits" if known => self.limit(container, resource),
            "requests" if known => {
                resource::request(container.resources.as_ref(), resource).unwrap_or_default()
            }
            _ => return Err(DownwardError::Resource(selector.resource.clone())),
        };
        in_units_of(amount, selector.divisor.as_ref(), resource == "cpu")
    }

    fn container(&self, name: &str) -> Option<&Container> {
        let spec = self.pod.spec.as_ref()?;
        spec.containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .find(|container| container.name == name)
    }

    fn limit(&self, container: &Container, resource: &str) -> Quantity {
        let pod_level = self.pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
        let is_given = |limit: &Quantity| !limit.is_zero();
        let own = resource::limit(container.resources.as_ref(), resource).filter(is_given);
        // A container that has not requested huge pages may use none; of any other resource, it may use what the pod
        // may, or what the node has.
        if resource.starts_with("hugepages-") {
            return own.unwrap_or_default();
        }
        own.or_else(|| resource::limit(pod_level, resource).filter(is_given))
            .or_else(|| self.node.allocatable.get(resource).copied())
            .unwrap_or_default()
    }
}

fn in_units_of(
    amount: Quantity,
    divisor: Option<&WireQuantity>,
    in_millis: bool,
) -> Result<String, DownwardError> {
    let divisor = match divisor {
        None => Quantity::from_units(1),
        Some(text) => {
            let divisor = Quantity::of(text).map_err(|_| DownwardError::Divisor(text.0.clone()))?;
            if divisor.is_zero() { Quantity::from_units(1) } else { divisor }
        }
    };
    let (amount, parts) =
        if in_millis { (amount.millis(), divisor.millis()) } else { (amount.units(), divisor.units()) };
    if parts <= 0 {
        return Err(DownwardError::Divisor(format!("{parts}")));
    }
    Ok((amount / parts + i64::from(amount % parts > 0)).to_string())
}

/// Splits `metadata.labels['app']` into its two parts.
pub(crate) fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// Formats one `key="value"` per line, without a trailing newline.
fn lines<'a>(map: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    map.map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join("\n")
}

/// Puts the value in double quotes, with the escapes that programs written for Kubernetes can read.
fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    for c in value.chars() {
        let escape = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            c if c.is_ascii_control() => &format!("\\x{:02x}", u32::from(c)),
            c if c.is_ascii() || is_printable(c) => {
                text.push(c);
                continue;
            }
            c if u32::from(c) > 0xffff => &format!("\\U{:08x}", u32::from(c)),
            c => &format!("\\u{:04x}", u32::from(c)),
        };
        text.push_str(escape);
    }
    text.push('"');
    text
}

/// Whether a non-ASCII character is printable. Those that `str` escapes are not; except that, at the beginning, `str`
/// would also escape marks that combine with the preceding character.
fn is_printable(c: char) -> bool {
    format!("a{c}").escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests;
