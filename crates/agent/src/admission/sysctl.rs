//! The kernel parameters that a pod may set: those that are namespaced and harm no other pod, and those that the node
//! allows.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// The safe parameters: they are namespaced, and do not affect the pod's neighbours.
const SAFE: [(&str, Namespace); 12] = [
    ("kernel.shm_rmid_forced", Namespace::Ipc),
    ("net.ipv4.ip_local_port_range", Namespace::Net),
    ("net.ipv4.tcp_syncookies", Namespace::Net),
    ("net.ipv4.ping_group_range", Namespace::Net),
    ("net.ipv4.ip_unprivileged_port_start", Namespace::Net),
    ("net.ipv4.ip_local_reserved_ports", Namespace::Net),
    ("net.ipv4.tcp_keepalive_time", Namespace::Net),
    ("net.ipv4.tcp_fin_timeout", Namespace::Net),
    ("net.ipv4.tcp_keepalive_intvl", Namespace::Net),
    ("net.ipv4.tcp_keepalive_probes", Namespace::Net),
    ("net.ipv4.tcp_rmem", Namespace::Net),
    ("net.ipv4.tcp_wmem", Namespace::Net),
];

/// A namespace that a pod can have for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Net,
}

impl Namespace {
    /// Returns the namespace that a parameter belongs to, if it is one that pods have.
    fn of(name: &str) -> Option<Self> {
        const IPC: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        if name.starts_with("net.") {
            return Some(Self::Net);
        }
        IPC.iter().any(|prefix| name.starts_with(prefix)).then_some(Self::Ipc)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Ipc => "ipc",
            Self::Net => "net",
        }
    }
}

/// A pattern for parameters, beyond the safe ones, that the node allows: `kernel.sem`, `net.core.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlPattern {
    stem: String,
    is_prefix: bool,
    namespace: Namespace,
}

/// The text is not a parameter or pattern that a node can allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a namespaced sysctl, nor a pattern of them that ends in \"*\"; namespaced are kernel.shm*, \
     kernel.msg*, kernel.sem, fs.mqueue.* and net.*"
)]
pub struct BadSysctlPattern(String);

impl std::str::FromStr for SysctlPattern {
    type Err = BadSysctlPattern;

    fn from_str(text: &str) -> Result<Self, BadSysctlPattern> {
        let bad = || BadSysctlPattern(text.to_owned());
        let dotted = dotted(text);
        let (stem, is_prefix) = match dotted.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (dotted.as_str(), false),
        };
        if stem.is_empty() || stem.contains('*') {
            return Err(bad());
        }
        let namespace = Namespace::of(stem).ok_or_else(bad)?;
        Ok(Self { stem: stem.to_owned(), is_prefix, namespace })
    }
}

impl SysctlPattern {
    fn covers(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.stem) } else { name == self.stem }
    }
}

/// Why a parameter may not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    NotAllowed { name: String },
    OfTheHost { name: String, namespace: &'static str },
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { name } => write!(f, "forbidden sysctl: {name:?} not allowlisted"),
            Self::OfTheHost { name, namespace } => {
                write!(f, "forbidden sysctl: {name:?} not allowed with host {namespace} enabled")
            }
        }
    }
}

/// Checks every parameter of a pod.
pub(super) fn check(pod: &Pod, allowed: &[SysctlPattern]) -> Result<(), Forbidden> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let sysctls = spec.security_context.as_ref().and_then(|context| context.sysctls.as_deref());
    for sysctl in sysctls.unwrap_or_default() {
        let name = dotted(&sysctl.name);
        let safe = SAFE.iter().find(|(safe, _)| *safe == name).map(|(_, namespace)| *namespace);
        let namespace =
            safe.or_else(|| allowed.iter().find(|one| one.covers(&name)).map(|one| one.namespace));
        let Some(namespace) = namespace else { return Err(Forbidden::NotAllowed { name }) };
        let is_hosts = match namespace {
            Namespace::Ipc => spec.host_ipc == Some(true),
            Namespace::Net => spec.host_network == Some(true),
        };
        if is_hosts {
            return Err(Forbidden::OfTheHost { name, namespace: namespace.as_str() });
        }
    }
    Ok(())
}

/// Converts `net/ipv4/conf/eth0.1/x` to `net.ipv4.conf.eth0/1.x`: whichever separator comes first is the separator.
pub(crate) fn dotted(name: &str) -> String {
    let uses_slashes = match (name.find('/'), name.find('.')) {
        (Some(slash), Some(dot)) => slash < dot,
        (slash, _) => slash.is_some(),
    };
    if !uses_slashes {
        return name.to_owned();
    }
    let swapped = |character| match character {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(swapped).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSecurityContext, Sysctl};

    use super::*;
    use crate::pod::testkit;

    fn pod(name: &str, host_network: bool, host_ipc: bool) -> Pod {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        let spec = pod.spec.as_mut().unwrap();
        (spec.host_network, spec.host_ipc) = (Some(host_network), Some(host_ipc));
        let sysctls = Some(vec![Sysctl { name: name.to_owned(), value: "1".to_owned() }]);
        spec.security_context = Some(PodSecurityContext { sysctls, ..PodSecurityContext::default() });
        pod
    }

    #[test]
    fn safe_ones_and_those_that_the_node_allows_may_be_set() {
        let allowed: Vec<SysctlPattern> =
            ["kernel.msg*", "net.core.somaxconn"].iter().map(|text| text.parse().unwrap()).collect();
        let fine = "";
        let table = [
            ("kernel.shm_rmid_forced", false, false, fine),
            ("net/ipv4/tcp_syncookies", false, false, fine),
            ("net.ipv4.tcp_rmem", false, true, fine),
            ("kernel.msgmax", false, false, fine),
            ("net.core.somaxconn", false, false, fine),
            (
                "net.core.somaxconn2",
                false,
                false,
                "forbidden sysctl: \"net.core.somaxconn2\" not allowlisted",
            ),
            ("vm.swappiness", false, false, "forbidden sysctl: \"vm.swappiness\" not allowlisted"),
            ("kernel.sem", false, false, "forbidden sysctl: \"kernel.sem\" not allowlisted"),
            (
                "net/ipv4/tcp_syncookies",
                true,
                false,
                "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host net enabled",
            ),
            (
                "kernel.msgmax",
                false,
                true,
                "forbidden sysctl: \"kernel.msgmax\" not allowed with host ipc enabled",
            ),
        ];
        for (name, host_network, host_ipc, wanted) in table {
            let got = check(&pod(name, host_network, host_ipc), &allowed);
            assert_eq!(got.err().map(|error| error.to_string()).unwrap_or_default(), wanted, "{name}");
        }
    }

    #[test]
    fn a_node_can_allow_only_what_pods_have_for_themselves() {
        for text in ["vm.swappiness", "*", "", "kernel.*", "net.*.x*"] {
            assert!(text.parse::<SysctlPattern>().is_err(), "{text}");
        }
        for text in ["net.*", "kernel.shm*", "kernel.sem", "fs.mqueue.*", "net/core/x"] {
            assert!(text.parse::<SysctlPattern>().is_ok(), "{text}");
        }
    }

    #[test]
    fn either_separator_is_understood() {
        assert_eq!(dotted("net/ipv4/conf/eth0.1/x"), "net.ipv4.conf.eth0/1.x");
        assert_eq!(dotted("net.ipv4.conf.eth0/1.x"), "net.ipv4.conf.eth0/1.x");
    }
}
