//! The hosts file of a pod.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use k8s_openapi::api::core::v1::Pod;

use super::names::HostName;
use crate::pod::spec;

const LOOPBACK: &str = "127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// The address by which a pod without addresses reaches itself: on a runtime without a network it has its loopback
/// device, and its name and aliases are looked up all the same.
const SELF: &[IpAddr] = &[IpAddr::V4(Ipv4Addr::LOCALHOST)];

/// Returns the text of the file. The host's part stays as it is, in whatever encoding.
pub(crate) fn hosts_file(pod: &Pod, ips: &[IpAddr], of_host: &[u8], cluster_domain: &str) -> Vec<u8> {
    let mut text = if spec::uses_host_network(pod) {
        [b"# Kubernetes-managed hosts file (host network).\n", of_host].concat()
    } else {
        let mut text = format!("# Kubernetes-managed hosts file.\n{LOOPBACK}").into_bytes();
        let HostName { name, domain } = HostName::of(pod, cluster_domain);
        for ip in if ips.is_empty() { SELF } else { ips } {
            let _ = match &domain {
                Some(domain) => writeln!(text, "{ip}\t{name}.{domain}\t{name}"),
                None => writeln!(text, "{ip}\t{name}"),
            };
        }
        text
    };
    let aliases = pod.spec.as_ref().and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    if !aliases.is_empty() {
        text.extend_from_slice(b"\n# Entries added by HostAliases.\n");
        for alias in aliases {
            let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
            let _ = writeln!(text, "{}\t{names}", alias.ip);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::HostAlias;

    use super::*;
    use crate::pod::testkit;

    fn hosts_file(pod: &Pod, ips: &[IpAddr], of_host: &str, cluster_domain: &str) -> String {
        String::from_utf8(super::hosts_file(pod, ips, of_host.as_bytes(), cluster_domain)).unwrap()
    }

    #[test]
    fn it_has_the_pods_addresses_or_the_hosts_own_lines_and_the_aliases() {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        assert_eq!(
            hosts_file(&pod, &[], "127.0.0.1 localhost\n", ""),
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
        );
        let text = super::hosts_file(&pod, &[], b"127.0.0.1 a # \xfc\n", "");
        assert!(text.ends_with(b"\n127.0.0.1 a # \xfc\n"), "another encoding is no reason to change it");
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = None;
        spec.host_aliases = Some(vec![HostAlias {
            ip: "10.1.1.1".to_owned(),
            hostnames: Some(vec!["a".to_owned(), "b".to_owned()]),
        }]);
        for (ips, own) in [(vec!["10.0.0.7".parse().unwrap()], "10.0.0.7"), (Vec::new(), "127.0.0.1")] {
            let tail = format!("{own}\tweb\n\n# Entries added by HostAliases.\n10.1.1.1\ta\tb\n");
            let wanted = format!("# Kubernetes-managed hosts file.\n{LOOPBACK}{tail}");
            assert_eq!(hosts_file(&pod, &ips, "", ""), wanted);
        }

        let spec = pod.spec.as_mut().unwrap();
        (spec.host_aliases, spec.subdomain) = (None, Some("sub".to_owned()));
        let ips = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let text = hosts_file(&pod, &ips, "", "cluster.local");
        let name = "web.sub.default.svc.cluster.local\tweb";
        let tail = format!("10.0.0.7\t{name}\nfd00::7\t{name}\n");
        assert_eq!(text, format!("# Kubernetes-managed hosts file.\n{LOOPBACK}{tail}"));
    }
}
