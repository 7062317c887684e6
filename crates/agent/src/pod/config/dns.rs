//! Which name servers a pod asks.

use k8s_openapi::api::core::v1::Pod;
use rubelet_cri::v1;

const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;

/// How the host itself resolves names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostDns {
    servers: Vec<String>,
    searches: Vec<String>,
    options: Vec<String>,
}

impl HostDns {
    /// Reads the text of `resolv.conf`: servers add up, the last `search` counts, of an option the last value.
    #[must_use]
    pub fn read(resolv_conf: &str) -> Self {
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
                Some("options") => words.for_each(|option| set_option(&mut dns.options, option.to_owned())),
                _ => {}
            }
        }
        dns
    }
}

/// What the runtime is told. Nothing means: as the host does.
pub(super) fn config(pod: &Pod, host: &HostDns) -> Option<v1::DnsConfig> {
    let spec = pod.spec.as_ref()?;
    let own = spec.dns_config.as_ref();
    let has_nothing_of_host = spec.dns_policy.as_deref() == Some("None");
    if own.is_none() && !has_nothing_of_host {
        return None;
    }
    let HostDns { mut servers, mut searches, mut options } =
        if has_nothing_of_host { HostDns::default() } else { host.clone() };
    if let Some(own) = own {
        append_new(&mut servers, own.nameservers.as_deref().unwrap_or_default());
        append_new(&mut searches, own.searches.as_deref().unwrap_or_default());
        for option in own.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            let text = option.value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}:{value}"));
            set_option(&mut options, text);
        }
    }
    servers.truncate(MOST_SERVERS);
    searches.truncate(MOST_SEARCHES);
    Some(v1::DnsConfig { servers, searches, options })
}

fn append_new(all: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

fn set_option(options: &mut Vec<String>, option: String) {
    let name = |option: &str| option.split(':').next().unwrap_or_default().to_owned();
    let new = name(&option);
    options.retain(|old| name(old) != new);
    options.push(option);
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption, PodSpec};

    use super::*;

    const HOST: &str = "# made by hand\nnameserver 10.0.0.1\nnameserver 10.0.0.2 ; the other\nsearch old\n\
                        search example.org. .\noptions ndots:1 rotate ndots:2\n";

    fn pod(policy: &str, config: Option<PodDNSConfig>) -> Pod {
        let spec = PodSpec { dns_policy: Some(policy.to_owned()), dns_config: config, ..PodSpec::default() };
        Pod { spec: Some(spec), ..Pod::default() }
    }

    fn own() -> PodDNSConfig {
        PodDNSConfig {
            nameservers: Some(["10.0.0.2", "9.9.9.9", "8.8.8.8"].map(str::to_owned).to_vec()),
            searches: Some(vec!["svc".to_owned()]),
            options: Some(vec![PodDNSConfigOption {
                name: Some("ndots".to_owned()),
                value: Some("5".to_owned()),
            }]),
        }
    }

    #[test]
    fn the_host_is_read_and_added_to() {
        let host = HostDns::read(HOST);
        assert_eq!(config(&pod("Default", None), &host), None, "as the host does");
        let merged = config(&pod("Default", Some(own())), &host).unwrap();
        assert_eq!(merged.servers, ["10.0.0.1", "10.0.0.2", "9.9.9.9"], "no more than three");
        assert_eq!(merged.searches, ["example.org", "svc"]);
        assert_eq!(merged.options, ["rotate", "ndots:5"]);
    }

    #[test]
    fn none_means_nothing_of_the_host() {
        let host = HostDns::read(HOST);
        let alone = config(&pod("None", Some(own())), &host).unwrap();
        assert_eq!(alone.servers, ["10.0.0.2", "9.9.9.9", "8.8.8.8"]);
        assert_eq!(alone.options, ["ndots:5"]);
        assert_eq!(config(&pod("None", None), &host), Some(v1::DnsConfig::default()));
    }
}
