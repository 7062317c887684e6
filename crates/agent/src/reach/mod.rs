//! How probes and hooks reach a container over the network: at the address of its pod or one that the manifest names,
//! on a port by number or by name.

mod connection;
mod http;
#[cfg(test)]
pub(crate) mod testkit;

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(crate) use connection::{ConnectionError, Dialer};
pub(crate) use http::{HttpError, PodHttp};

/// The version of Kubernetes whose behaviour this is, as containers see it.
pub(crate) const KUBERNETES: &str = "1.36";

/// Why the address of a container is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReachError {
    #[error(
        "the pod has no address; use exec or hostNetwork, or set a host that can be reached from the node"
    )]
    NoAddress,
    #[error("couldn't find port: {0:?}; name it in the container's ports")]
    NoPort(String),
    #[error("invalid port number: {0}")]
    BadPort(i32),
}

/// The address at which a container can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Returns the address of a container in a pod with these IPs.
    pub(crate) fn of(
        host: Option<&str>,
        port: &IntOrString,
        container: &Container,
        ips: &[IpAddr],
    ) -> Result<Self, ReachError> {
        let host = match host.filter(|host| !host.is_empty()) {
            Some(host) => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            None => ips.first().ok_or(ReachError::NoAddress)?.to_string(),
        };
        let number = match port {
            IntOrString::Int(number) => *number,
            IntOrString::String(name) => {
                let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
                let number = named.map(|port| port.container_port).or_else(|| name.parse().ok());
                number.ok_or_else(|| ReachError::NoPort(name.clone()))?
            }
        };
        let port = u16::try_from(number).ok().filter(|port| *port > 0).ok_or(ReachError::BadPort(number))?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

    #[test]
    fn addresses_and_ports_are_found() {
        let port =
            ContainerPort { name: Some("web".to_owned()), container_port: 8080, ..ContainerPort::default() };
        let container = Container { ports: Some(vec![port]), ..Container::default() };
        let v4 = ["10.0.0.7".parse().unwrap()];
        let v6 = ["fd00::7".parse().unwrap()];
        let named = |name: &str| IntOrString::String(name.to_owned());
        let number = IntOrString::Int;
        let table: [(Option<&str>, IntOrString, &[IpAddr], &str); 10] = [
            (None, named("web"), &v4, "10.0.0.7:8080"),
            (None, named("80"), &v4, "10.0.0.7:80"),
            (None, number(1), &v6, "[fd00::7]:1"),
            (Some(""), number(1), &v6, "[fd00::7]:1"),
            (Some("h"), number(65535), &[], "h:65535"),
            (Some("fd00::8"), number(1), &v4, "[fd00::8]:1"),
            (Some("[fd00::8]"), number(1), &v4, "[fd00::8]:1"),
            (None, named("web"), &[], "the pod has no address"),
            (None, named("x"), &v4, "couldn't find port: \"x\""),
            (None, number(65536), &v4, "invalid port number: 65536"),
        ];
        for (host, port, ips, wanted) in table {
            let got = Address::of(host, &port, &container, ips);
            let got = got.map_or_else(|error| error.to_string(), |address| address.to_string());
            assert!(got.starts_with(wanted), "{host:?} {port:?}: {got}");
        }
    }
}
