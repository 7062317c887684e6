//! What this machine and this process can do: read once, and passed to everything that decides.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cgroup::Cgroups;
use super::process;
use super::rootless::ids::IdMap;

/// Facts about the host.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) cgroups: Cgroups,
    /// The capabilities that this process has and can pass on, without `CAP_`.
    pub(crate) capabilities: BTreeSet<String>,
    /// The lowest `oom_score_adj` that this process may set.
    pub(crate) oom_score_floor: i64,
    pub(crate) selinux: bool,
    pub(crate) apparmor: bool,
    /// Whether swap use can be limited.
    pub(crate) swap_limit: bool,
    /// Whether this process is root only in a user namespace.
    pub(crate) rootless: bool,
    /// The users and groups that exist for this process.
    pub(crate) users: IdMap,
    pub(crate) groups: IdMap,
    /// How many files a program may have open, as set by whoever started us.
    pub(crate) open_files: Option<u64>,
    /// Whether a process may choose its supplementary groups.
    pub(crate) can_set_groups: bool,
    /// The machine's name, which containers without a name of their own get as well.
    pub(crate) host_name: String,
}

impl Facts {
    /// Reads the facts from the kernel.
    pub(crate) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let uid_map = text("/proc/self/uid_map");
        let rootless = in_user_namespace(&uid_map);
        // The hierarchies belong to the machine, and so does the right to create groups in them.
        let cgroups = if rootless { Cgroups::None } else { Cgroups::detect() };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let capabilities = capabilities_in(&status);
        let own: i64 = fs::read_to_string("/proc/self/oom_score_adj")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or_default();
        let swap_limit = match &cgroups {
            Cgroups::V2(_) => true,
            Cgroups::V1(_) => cgroups
                .folder("memory", "/.")
                .is_some_and(|root| root.join("memory.memsw.limit_in_bytes").exists()),
            Cgroups::None => false,
        };
        Self {
            // A capability in a user namespace gives no right over the machine.
            oom_score_floor: if capabilities.contains("SYS_RESOURCE") && !rootless { -1000 } else { own },
            capabilities,
            selinux: Path::new("/sys/fs/selinux/enforce").exists(),
            apparmor: fs::read_to_string("/sys/module/apparmor/parameters/enabled")
                .is_ok_and(|text| text.starts_with('Y')),
            swap_limit,
            rootless,
            users: IdMap::parse(&uid_map),
            groups: IdMap::parse(&text("/proc/self/gid_map")),
            open_files: process::open_files(),
            can_set_groups: text("/proc/self/setgroups").trim() != "deny",
            host_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            cgroups,
        }
    }
}

#[cfg(test)]
impl Facts {
    /// Returns a machine where everything is possible, for tests.
    pub(crate) fn able(cgroups: Cgroups) -> Self {
        Self {
            cgroups,
            capabilities: CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
            oom_score_floor: -1000,
            selinux: false,
            apparmor: false,
            swap_limit: true,
            rootless: false,
            users: IdMap::parse("0 0 4294967295"),
            groups: IdMap::parse("0 0 4294967295"),
            open_files: None,
            can_set_groups: true,
            host_name: "machine".to_owned(),
        }
    }
}

/// Whether an id map is not that of the initial user namespace, which maps every id to itself.
pub(crate) fn in_user_namespace(uid_map: &str) -> bool {
    let words: Vec<&str> = uid_map.split_whitespace().collect();
    words != ["0", "0", "4294967295"] && !words.is_empty()
}

/// The names of the capabilities, in the kernel's numeric order.
pub(crate) const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

fn capabilities_in(status: &str) -> BTreeSet<String> {
    let mask = |field: &str| {
        status
            .lines()
            .find_map(|line| u64::from_str_radix(line.strip_prefix(field)?.trim(), 16).ok())
            .unwrap_or(0)
    };
    let have = mask("CapPrm:") & mask("CapBnd:");
    let named = CAPABILITIES.iter().enumerate();
    named.filter(|(bit, _)| have & (1 << bit) != 0).map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_both_permitted_and_bounded() {
        let found = capabilities_in("CapPrm:\t0000000000000003\nCapBnd:\t0000000001000002\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["DAC_OVERRIDE"]);
        assert_eq!(capabilities_in("CapPrm: 1ffffffffff\nCapBnd: 1ffffffffff\n").len(), 41);
    }

    #[test]
    fn a_partial_map_is_a_user_namespace() {
        assert!(!in_user_namespace("         0          0 4294967295\n"));
        assert!(in_user_namespace("         0       1000          1\n"));
    }
}
