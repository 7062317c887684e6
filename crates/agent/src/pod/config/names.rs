//! Names that the kubelet gives to parts of a pod: log folders and files, host names.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::pod::spec;

/// Returns `<root>/<namespace>_<name>_<uid>`.
pub(crate) fn log_directory(root: &Path, pod: &Pod) -> PathBuf {
    root.join(format!("{}_{}_{}", spec::namespace(pod), spec::name(pod), spec::uid(pod)))
}

/// A log file of a container: `<restart count>.log`, or a rotated part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogName {
    pub(crate) restart_count: u32,
}

impl LogName {
    /// Reads a file name: `3.log`, `3.log.20260801-120000`, `3.log.20260801-120000.gz`.
    pub(crate) fn read(file_name: &str) -> Option<Self> {
        let (number, rest) = file_name.split_once(".log")?;
        let is_log = rest.is_empty() || rest.starts_with('.');
        number.parse().ok().filter(|_| is_log).map(|restart_count| Self { restart_count })
    }

    /// Returns its path below the pod's log folder.
    pub(crate) fn path(self, container: &str) -> String {
        format!("{container}/{}.log", self.restart_count)
    }
}

/// The longest host name.
const LONGEST_HOST_NAME: usize = 63;

/// The longest host name that Linux can store.
const LONGEST_KERNEL_NAME: usize = 64;

/// The host name of a pod, in two parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostName {
    /// Empty on the host's network, where it has the host's name.
    pub(crate) name: String,
    /// `<subdomain>.<namespace>.svc.<cluster domain>`, for a pod that has a subdomain.
    pub(crate) domain: Option<String>,
}

/// The error that the name the pod asks for is too long for the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to construct FQDN from pod hostname and cluster domain, FQDN {name} is too long ({LONGEST_KERNEL_NAME} characters is the max, {} characters requested)", .name.len()
)]
pub(crate) struct NameTooLong {
    name: String,
}

impl HostName {
    pub(crate) fn of(pod: &Pod, cluster_domain: &str) -> Self {
        let Some(spec) = pod.spec.as_ref().filter(|_| !spec::uses_host_network(pod)) else {
            return Self::default();
        };
        let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        if let Some(name) = given(&spec.hostname_override) {
            return Self { name: shortened(&name), domain: None };
        }
        let name = given(&spec.hostname).unwrap_or_else(|| spec::name(pod).to_owned());
        let domain = given(&spec.subdomain).map(|subdomain| {
            let full = format!("{subdomain}.{}.svc.{cluster_domain}", spec::namespace(pod));
            full.trim_end_matches('.').to_owned()
        });
        Self { name: shortened(&name), domain }
    }

    /// Returns the host name in the pod's own kernel namespace: with the domain if the pod asks for that.
    pub(crate) fn for_kernel(&self, pod: &Pod) -> Result<String, NameTooLong> {
        let in_full = pod.spec.as_ref().and_then(|spec| spec.set_hostname_as_fqdn) == Some(true);
        match &self.domain {
            Some(domain) if in_full => {
                let name = format!("{}.{domain}", self.name);
                if name.len() > LONGEST_KERNEL_NAME { Err(NameTooLong { name }) } else { Ok(name) }
            }
            _ => Ok(self.name.clone()),
        }
    }
}

fn shortened(name: &str) -> String {
    let end = name.char_indices().nth(LONGEST_HOST_NAME).map_or(name.len(), |(index, _)| index);
    name[..end].trim_end_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::testkit;

    #[test]
    fn log_names_are_read_rotated_or_not() {
        let table = [
            ("0.log", Some(0)),
            ("12.log", Some(12)),
            ("3.log.20260801-120000", Some(3)),
            ("3.log.20260801-120000.gz", Some(3)),
            ("3.logs", None),
            ("x.log", None),
            ("3", None),
        ];
        for (name, wanted) in table {
            assert_eq!(LogName::read(name).map(|name| name.restart_count), wanted, "{name}");
        }
        assert_eq!(LogName { restart_count: 4 }.path("web"), "web/4.log");
    }

    #[test]
    fn host_names_as_the_manifest_wants_them() {
        let long = "a".repeat(61);
        let cut = format!("{long}-.-tail");
        // hostname, override, subdomain, in full; the name, the domain, the name in the kernel
        type Row<'a> = (&'a str, &'a str, &'a str, bool, &'a str, Option<&'a str>, Result<&'a str, usize>);
        let domain = "sub.default.svc.cluster.local";
        let table: [Row<'_>; 8] = [
            ("", "", "", false, "web", None, Ok("web")),
            ("own", "", "", false, "own", None, Ok("own")),
            (&cut, "", "", false, &long, None, Ok(&long)),
            ("own", "", "sub", false, "own", Some(domain), Ok("own")),
            ("own", "", "sub", true, "own", Some(domain), Ok("own.sub.default.svc.cluster.local")),
            ("own", "", "", true, "own", None, Ok("own")),
            ("own", "other.name", "sub", true, "other.name", None, Ok("other.name")),
            (&long, "", "sub", true, &long, Some(domain), Err(91)),
        ];
        for (hostname, given, subdomain, in_full, name, domain, kernel) in table {
            let mut pod = testkit::pod("Always", &[], &["c"]);
            let spec = pod.spec.as_mut().unwrap();
            spec.hostname = Some(hostname.to_owned());
            spec.hostname_override = Some(given.to_owned());
            spec.subdomain = Some(subdomain.to_owned());
            spec.set_hostname_as_fqdn = Some(in_full);
            assert_eq!(HostName::of(&pod, "cluster.local"), HostName::default(), "on the host's network");
            pod.spec.as_mut().unwrap().host_network = None;
            let made = HostName::of(&pod, "cluster.local");
            assert_eq!((made.name.as_str(), made.domain.as_deref()), (name, domain));
            let told = made.for_kernel(&pod);
            assert_eq!(told.as_deref().map_err(|error| error.name.len()), kernel);
        }
        let mut pod = testkit::pod("Always", &[], &["c"]);
        let spec = pod.spec.as_mut().unwrap();
        (spec.host_network, spec.subdomain) = (None, Some("sub".to_owned()));
        assert_eq!(HostName::of(&pod, "").domain.as_deref(), Some("sub.default.svc"), "without a cluster");
    }
}
