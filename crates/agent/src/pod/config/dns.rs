//! The name servers of a pod.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use rubelet_cri::v1;

use crate::pod::spec::{self, Described};

const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCH: usize = 253;
const LONGEST_SEARCH_LINE: usize = 2048;
/// Makes resolvers try the search list first for names of services.
const CLUSTER_OPTION: &str = "ndots:5";

/// How the host itself resolves names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostDns {
    servers: Vec<String>,
    searches: Vec<String>,
    options: Vec<String>,
}

impl HostDns {
    /// Reads the text of `resolv.conf`: servers add up, the last `search` counts, and the last value of each option.
    fn read(resolv_conf: &str) -> Self {
        let mut dns = Self::default();
        for line in resolv_conf.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let trimmed = words.map(|word| word.trim_end_matches('.'));
                    dns.searches = trimmed.filter(|word| !word.is_empty()).map(str::to_owned).collect();
                }
                Some("options") => dns.options.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        dns.options = last_of_each(dns.options);
        dns
    }

    /// Returns settings that take nothing from the host: a pod asks itself, over the address families of the node, in
    /// vain.
    fn nobody(host_ips: &[IpAddr]) -> Self {
        let mut servers = Vec::new();
        for ip in host_ips {
            append_new(&mut servers, &[if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned()]);
        }
        if servers.is_empty() {
            servers.push("127.0.0.1".to_owned());
        }
        Self { servers, searches: vec![".".to_owned()], options: Vec::new() }
    }
}

/// What a node tells its pods about name resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDns {
    /// The file that says how the host resolves names, or what pods are to have in its place. If it is empty, pods ask
    /// no name servers.
    pub resolv_conf: PathBuf,
    /// The name servers of the cluster; empty without one.
    pub cluster_servers: Vec<String>,
    /// The domain of the cluster, like `cluster.local`.
    pub cluster_domain: String,
}

/// The file that every runtime copies by itself.
const USUAL: &str = "/etc/resolv.conf";

impl Default for NodeDns {
    fn default() -> Self {
        Self { resolv_conf: USUAL.into(), cluster_servers: Vec::new(), cluster_domain: String::new() }
    }
}

impl NodeDns {
    /// Reads what the file says now: it changes with the networks that the host is in.
    pub(crate) fn host(&self) -> io::Result<HostDns> {
        if self.asks_nobody() {
            return Ok(HostDns::default());
        }
        // Comments may be in any encoding.
        std::fs::read(&self.resolv_conf).map(|text| HostDns::read(&String::from_utf8_lossy(&text)))
    }

    fn asks_nobody(&self) -> bool {
        self.resolv_conf.as_os_str().is_empty()
    }
}

/// The DNS settings of a pod for the runtime, and the warnings about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodDns {
    /// `None` means the same as on the host.
    pub(crate) config: Option<v1::DnsConfig>,
    /// Warnings: a reason and a message each.
    pub(crate) warnings: Vec<(&'static str, String)>,
}

/// The origin of the name servers that a pod asks first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Its,
    Hosts,
    Clusters,
    /// Those of the host, since there are none of a cluster.
    HostsForWant,
}

fn whose(pod: &Pod, node: &NodeDns) -> Whose {
    let policy = pod.spec.as_ref().and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    match policy {
        "None" => Whose::Its,
        "ClusterFirst" if spec::uses_host_network(pod) => Whose::Hosts,
        "ClusterFirst" | "ClusterFirstWithHostNet" if node.cluster_servers.is_empty() => Whose::HostsForWant,
        "ClusterFirst" | "ClusterFirstWithHostNet" => Whose::Clusters,
        _ => Whose::Hosts,
    }
}

/// Whether the settings of the pod depend on how the host resolves names.
pub(crate) fn depends_on_host(pod: &Pod, node: &NodeDns) -> bool {
    match whose(pod, node) {
        Whose::Its => false,
        Whose::Clusters => true,
        Whose::Hosts | Whose::HostsForWant => !is_copied(pod, node),
    }
}

/// Whether the pod has exactly what the runtime copies for it.
fn is_copied(pod: &Pod, node: &NodeDns) -> bool {
    let adds = pod.spec.as_ref().is_some_and(|spec| spec.dns_config.is_some());
    !adds && node.resolv_conf == Path::new(USUAL)
}

/// Returns the DNS settings of a pod. `host` counts only if it [depends on it](depends_on_host).
pub(crate) fn of_pod(pod: &Pod, node: &NodeDns, host_ips: &[IpAddr], host: HostDns) -> PodDns {
    let Some(spec) = pod.spec.as_ref() else { return PodDns::default() };
    let own = spec.dns_config.as_ref();
    let whose = whose(pod, node);
    let mut warnings = Vec::new();
    if whose == Whose::HostsForWant {
        let message = format!(
            "pod: \"{}\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \
             \"ClusterFirst\" policy. Falling back to \"Default\" policy.",
            Described(pod)
        );
        warnings.push(("MissingClusterDNS", message));
    }
    let HostDns { mut servers, mut searches, mut options } = match whose {
        Whose::Its => HostDns::default(),
        Whose::Hosts | Whose::HostsForWant if is_copied(pod, node) => {
            return PodDns { config: None, warnings };
        }
        Whose::Hosts | Whose::HostsForWant if node.asks_nobody() => HostDns::nobody(host_ips),
        Whose::Hosts | Whose::HostsForWant => host,
        Whose::Clusters => of_cluster(pod, node, &host),
    };
    if let Some(own) = own {
        append_new(&mut servers, own.nameservers.as_deref().unwrap_or_default());
        append_new(&mut searches, own.searches.as_deref().unwrap_or_default());
        options.extend(own.options.iter().flatten().map(|option| {
            let name = option.name.clone().unwrap_or_default();
            option.value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}:{value}"))
        }));
        options = last_of_each(options);
    }
    if servers.len() > MOST_SERVERS {
        servers.truncate(MOST_SERVERS);
        let line = servers.join(" ");
        let message = format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {line}"
        );
        warnings.push(("DNSConfigForming", message));
    }
    if cut_searches(&mut searches) {
        let line = searches.join(" ");
        let message = format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {line}"
        );
        warnings.push(("DNSConfigForming", message));
    }
    PodDns { config: Some(v1::DnsConfig { servers, searches, options }), warnings }
}

fn of_cluster(pod: &Pod, node: &NodeDns, host: &HostDns) -> HostDns {
    let domain = node.cluster_domain.as_str();
    let mut searches = Vec::new();
    if !domain.is_empty() {
        let namespace = spec::namespace(pod);
        searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    }
    append_new(&mut searches, &host.searches);
    HostDns { servers: node.cluster_servers.clone(), searches, options: vec![CLUSTER_OPTION.to_owned()] }
}

/// Removes what is too long for a resolver, from the end. Returns whether there was any.
fn cut_searches(searches: &mut Vec<String>) -> bool {
    let before = searches.len();
    searches.retain(|search| search.len() <= LONGEST_SEARCH);
    searches.truncate(MOST_SEARCHES);
    while searches.iter().map(|search| search.len() + 1).sum::<usize>() > LONGEST_SEARCH_LINE + 1 {
        searches.pop();
    }
    searches.len() < before
}

fn append_new(all: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// Keeps the last one of options with the same name.
fn last_of_each(options: Vec<String>) -> Vec<String> {
    let mut names = BTreeSet::new();
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    let mut last: Vec<String> =
        options.into_iter().rev().filter(|option| names.insert(name(option))).collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption};

    use super::*;
    use crate::pod::testkit;

    const HOST: &str = "# made by hand\nnameserver 10.0.0.1\nnameserver 10.0.0.2 ; the other\nsearch old\n\
                        search example.org. .\noptions ndots:1 rotate ndots:2\n";

    fn pod(policy: &str, on_host: bool, config: Option<PodDNSConfig>) -> Pod {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = Some(on_host);
        spec.dns_policy = Some(policy.to_owned());
        spec.dns_config = config;
        pod
    }

    fn own() -> PodDNSConfig {
        PodDNSConfig {
            nameservers: Some(["10.0.0.2", "9.9.9.9"].map(str::to_owned).to_vec()),
            searches: Some(["svc", "example.org"].map(str::to_owned).to_vec()),
            options: Some(vec![
                PodDNSConfigOption { name: Some("ndots".to_owned()), value: Some("7".to_owned()) },
                PodDNSConfigOption { name: Some("edns0".to_owned()), value: None },
            ]),
        }
    }

    fn node(cluster: &[&str]) -> NodeDns {
        NodeDns {
            resolv_conf: USUAL.into(),
            cluster_servers: cluster.iter().map(|server| (*server).to_owned()).collect(),
            cluster_domain: "cluster.local".to_owned(),
        }
    }

    /// `servers / searches / options; warnings`, or `host`.
    fn told(pod: &Pod, node: &NodeDns) -> String {
        told_on(pod, node, &[])
    }

    fn told_on(pod: &Pod, node: &NodeDns, ips: &[&str]) -> String {
        // The host's settings are read only for a pod that depends on them.
        let host = match depends_on_host(pod, node) {
            true if node.asks_nobody() => node.host().unwrap(),
            true => HostDns::read(HOST),
            false => HostDns::default(),
        };
        let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let PodDns { config, warnings } = of_pod(pod, node, &ips, host);
        let mut text = config.map_or("host".to_owned(), |config| {
            [config.servers, config.searches, config.options].map(|list| list.join(" ")).join(" / ")
        });
        for (reason, _) in warnings {
            text = format!("{text}; {reason}");
        }
        text
    }

    #[test]
    fn every_policy_with_and_without_a_cluster() {
        let cluster =
            "10.96.0.10 / default.svc.cluster.local svc.cluster.local cluster.local example.org / ndots:5";
        let with_own = "10.96.0.10 10.0.0.2 9.9.9.9 / default.svc.cluster.local svc.cluster.local cluster.local \
                        example.org svc / ndots:7 edns0";
        let host_and_own = "10.0.0.1 10.0.0.2 9.9.9.9 / example.org svc / rotate ndots:7 edns0";
        let table = [
            ("None", false, None, " /  / "),
            ("None", false, Some(own()), "10.0.0.2 9.9.9.9 / svc example.org / ndots:7 edns0"),
            ("Default", false, None, "host"),
            ("Default", false, Some(own()), host_and_own),
            ("ClusterFirst", false, None, cluster),
            ("ClusterFirst", false, Some(own()), with_own),
            ("ClusterFirst", true, None, "host"),
            ("ClusterFirst", true, Some(own()), host_and_own),
            ("ClusterFirstWithHostNet", true, None, cluster),
            ("ClusterFirstWithHostNet", false, None, cluster),
        ];
        for (policy, on_host, own, expected) in table {
            let shown = format!("{policy} {on_host} {}", own.is_some());
            assert_eq!(told(&pod(policy, on_host, own), &node(&["10.96.0.10"])), expected, "{shown}");
        }
        for (policy, on_host, expected) in [
            ("ClusterFirst", false, "host; MissingClusterDNS"),
            ("ClusterFirst", true, "host"),
            ("ClusterFirstWithHostNet", true, "host; MissingClusterDNS"),
            ("Default", false, "host"),
        ] {
            assert_eq!(
                told(&pod(policy, on_host, None), &node(&[])),
                expected,
                "{policy} {on_host}, no cluster"
            );
        }
        let bare = "10.96.0.10 / default.svc.cluster.local svc.cluster.local cluster.local / ndots:5";
        for (policy, ips, expected) in [
            ("ClusterFirst", &["192.0.2.1"][..], bare),
            ("Default", &[], "127.0.0.1 / . / "),
            ("Default", &["fd00::1"], "::1 / . / "),
            ("Default", &["192.0.2.1", "fd00::1", "192.0.2.2"], "127.0.0.1 ::1 / . / "),
        ] {
            let node = NodeDns { resolv_conf: PathBuf::new(), ..node(&["10.96.0.10"]) };
            assert_eq!(told_on(&pod(policy, false, None), &node, ips), expected, "{policy} {ips:?}, no file");
        }
    }

    #[test]
    fn another_file_than_the_hosts_is_told_in_full() {
        let mut node = node(&[]);
        node.resolv_conf = "/run/other/resolv.conf".into();
        let pod = pod("Default", false, None);
        assert_eq!(told(&pod, &node), "10.0.0.1 10.0.0.2 / example.org / rotate ndots:2");
    }

    #[test]
    fn the_file_is_read_when_it_is_asked_for_and_without_one_nobody_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let mut node = node(&[]);
        node.resolv_conf = folder.path().join("resolv.conf");
        assert_eq!(node.host().unwrap_err().kind(), io::ErrorKind::NotFound);
        for server in ["10.0.0.1", "10.0.0.2"] {
            std::fs::write(&node.resolv_conf, format!("nameserver {server}\n")).unwrap();
            assert_eq!(node.host().unwrap().servers, [server]);
        }
        std::fs::write(&node.resolv_conf, b"# B\xfcro\nnameserver 10.0.0.3\n").unwrap();
        assert_eq!(node.host().unwrap().servers, ["10.0.0.3"], "a comment may be in any encoding");
        node.resolv_conf = PathBuf::new();
        assert_eq!(node.host().unwrap(), HostDns::default());
    }

    #[test]
    fn what_is_too_much_for_a_resolver_is_cut_and_told() {
        let config = |servers: usize, searches: Vec<String>| PodDNSConfig {
            nameservers: Some((0..servers).map(|n| format!("192.0.2.{n}")).collect()),
            searches: Some(searches),
            options: None,
        };
        let told = |config| of_pod(&pod("None", false, Some(config)), &node(&[]), &[], HostDns::default());
        let numbered =
            |count: usize, length: usize| (0..count).map(|n| format!("{n:0length$}")).collect::<Vec<_>>();
        for (servers, searches, left, warnings) in [
            (3, numbered(32, 4), (3, 32), 0),
            (4, numbered(1, 4), (3, 1), 1),
            (1, numbered(33, 4), (1, 32), 1),
            (1, numbered(2, 253), (1, 2), 0),
            (1, numbered(2, 254), (1, 0), 1),
            // Eight of them with the spaces in between are 2031 characters, nine are 2285.
            (1, numbered(8, 253), (1, 8), 0),
            (1, numbered(9, 253), (1, 8), 1),
            (4, numbered(40, 100), (3, 20), 2),
        ] {
            let shown = format!("{servers} servers, {} searches of {}", searches.len(), searches[0].len());
            let PodDns { config, warnings: said } = told(config(servers, searches));
            let config = config.unwrap();
            assert_eq!((config.servers.len(), config.searches.len()), left, "{shown}");
            assert_eq!(
                said.iter().filter(|(reason, _)| *reason == "DNSConfigForming").count(),
                warnings,
                "{shown}"
            );
        }
        let (_, message) = told(config(4, Vec::new())).warnings.remove(0);
        assert!(
            message.ends_with("the applied nameserver line is: 192.0.2.0 192.0.2.1 192.0.2.2"),
            "{message}"
        );
    }

    #[test]
    fn of_an_option_the_last_value_counts_however_many_there_are() {
        let table: [(&[&str], &[&str]); 4] = [
            (&[], &[]),
            (&["ndots:1", "rotate", "ndots:2"], &["rotate", "ndots:2"]),
            (&["a", "a:1", "b", "a"], &["b", "a"]),
            (&["a:1:2", "a:3"], &["a:3"]),
        ];
        let of = |options: &[&str]| last_of_each(options.iter().map(|one| (*one).to_owned()).collect());
        for (options, wanted) in table {
            assert_eq!(of(options), wanted, "{options:?}");
        }
        // As many as a manifest may have: this would take minutes if each were compared with all others.
        let many: Vec<String> = (0..100_000).map(|n| format!("option{n}:{n}")).collect();
        assert_eq!(last_of_each(many.clone()), many);
    }
}
