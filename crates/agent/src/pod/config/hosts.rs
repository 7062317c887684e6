//! The hosts file of a pod.

use std::io::Write as _;
use std::net::IpAddr;

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

/// The text of the file; `None` if the pod has no address to put into it. What is the host's stays as it is, in whatever
/// encoding.
pub(crate) fn hosts_file(pod: &Pod, ips: &[IpAddr], of_host: &[u8], cluster_domain: &str) -> Option<Vec<u8>> {
    let mut text = if spec::uses_host_network(pod) {
        [b"# Kubernetes-managed hosts file (host network).\n", of_host].concat()
    } else if ips.is_empty() {
        return None;
    } else {
        let mut text = format!("# Kubernetes-managed hosts file.\n{LOOPBACK}").into_bytes();
        let HostName { name, domain } = HostName::of(pod, cluster_domain);
        for ip in ips {
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
    Some(text)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::HostAlias;

    use super::*;
    use crate::pod::testkit;

    fn hosts_file(pod: &Pod, ips: &[IpAddr], of_host: &str, cluster_domain: &str) -> Option<String> {
        let text = super::hosts_file(pod, ips, of_host.as_bytes(), cluster_domain)?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn it_has_the_pods_addresses_or_the_hosts_own_lines_and_the_aliases() {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        assert_eq!(
            hosts_file(&pod, &[], "127.0.0.1 localhost\n", "").unwrap(),
            "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
        );
        let text = super::hosts_file(&pod, &[], b"127.0.0.1 a # \xfc\n", "").unwrap();
        assert!(text.ends_with(b"\n127.0.0.1 a # \xfc\n"), "another encoding is no reason to change it");
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = None;
        spec.host_aliases = Some(vec![HostAlias {
            ip: "10.1.1.1".to_owned(),
            hostnames: Some(vec!["a".to_owned(), "b".to_owned()]),
        }]);
        assert_eq!(hosts_file(&pod, &[], "", ""), None);
        let text = hosts_file(&pod, &["10.0.0.7".parse().unwrap()], "", "").unwrap();
        let tail = "10.0.0.7\tweb\n\n# Entries added by HostAliases.\n10.1.1.1\ta\tb\n";
        assert_eq!(text, format!("# Kubernetes-managed hosts file.\n{LOOPBACK}{tail}"));

        let spec = pod.spec.as_mut().unwrap();
        (spec.host_aliases, spec.subdomain) = (None, Some("sub".to_owned()));
        let ips = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let text = hosts_file(&pod, &ips, "", "cluster.local").unwrap();
        let name = "web.sub.default.svc.cluster.local\tweb";
        let tail = format!("10.0.0.7\t{name}\nfd00::7\t{name}\n");
        assert_eq!(text, format!("# Kubernetes-managed hosts file.\n{LOOPBACK}{tail}"));
    }
}
