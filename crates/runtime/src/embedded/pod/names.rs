//! Name resolution for a pod's containers: the files that each of them gets in `/etc`.

use std::fs;
use std::path::Path;

use rubelet_cri::v1;

use crate::embedded::error::{Error, Result};

/// Writes the files to the sandbox's folder.
pub(super) fn write_files(folder: &Path, config: &v1::PodSandboxConfig, hostname: &str) -> Result<()> {
    let host_file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let resolv_conf = match &config.dns_config {
        Some(dns) if !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty()) => {
            resolv_conf(dns)
        }
        _ => host_file("/etc/resolv.conf"),
    };
    let hostname =
        if hostname.is_empty() { host_file("/etc/hostname").trim().to_owned() } else { hostname.to_owned() };
    let files = [
        ("resolv.conf", resolv_conf),
        ("hostname", format!("{hostname}\n")),
        ("hosts", host_file("/etc/hosts")),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        // Any user in the pod must be able to read it.
        fs::write(&path, text).map_err(|error| Error::io(format!("write {}", path.display()), error))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&path, mode)
            .map_err(|error| Error::io(format!("write {}", path.display()), error))?;
    }
    Ok(())
}

fn resolv_conf(dns: &v1::DnsConfig) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    for server in &dns.servers {
        text.push_str(&format!("nameserver {server}\n"));
    }
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns() {
        let dns = v1::DnsConfig {
            servers: vec!["1.1.1.1".into(), "::1".into()],
            searches: vec!["a".into(), "b".into()],
            options: vec!["ndots:5".into()],
        };
        assert_eq!(resolv_conf(&dns), "search a b\nnameserver 1.1.1.1\nnameserver ::1\noptions ndots:5\n");
    }
}
