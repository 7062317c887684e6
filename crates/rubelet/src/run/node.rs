//! The node as its pods see it: its name, capacity, admission limits and features.

use std::collections::BTreeMap;
use std::path::Path;

use rubelet_agent::admission::{Node, RuntimeFeatures};
use rubelet_agent::pod::Machine;
use rubelet_agent::resource::Quantity;

use super::{NodeConfig, Plan};

/// The host name in lower case, which is the name of the node.
pub(crate) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().to_lowercase()
}

/// The capacity of this machine, by resource. `data` is where pods keep what they write.
pub(super) fn capacity(data: &Path) -> BTreeMap<String, Quantity> {
    let mut capacity: BTreeMap<String, Quantity> =
        huge_pages(Path::new("/sys/kernel/mm/hugepages")).collect();
    if let Some(cpus) = cpus() {
        capacity.insert("cpu".to_owned(), units(cpus));
    }
    if let Some(memory) = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text)) {
        capacity.insert("memory".to_owned(), Quantity::from_units(memory));
    }
    if let Ok(disk) = rustix::fs::statvfs(data) {
        let bytes = disk.f_blocks.saturating_mul(disk.f_frsize);
        let bytes = Quantity::from_units(i64::try_from(bytes).unwrap_or(i64::MAX));
        capacity.insert("ephemeral-storage".to_owned(), bytes);
    }
    capacity
}

/// The part of the capacity that pods may request: all except what is reserved, what is kept free, and the memory that
/// is set aside for huge pages.
pub(super) fn allocatable(
    capacity: &BTreeMap<String, Quantity>,
    config: &NodeConfig,
) -> BTreeMap<String, Quantity> {
    let huge: Quantity =
        capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, bytes)| *bytes).sum();
    let left = |(name, whole): (&String, &Quantity)| {
        let reserved = config.reserved.get(name).copied().unwrap_or(Quantity::ZERO);
        let kept = match name.as_str() {
            "memory" => config.kept_free.memory.of(*whole) + huge,
            "ephemeral-storage" => config.kept_free.disk.of(*whole),
            _ => Quantity::ZERO,
        };
        let left = whole.millis().saturating_sub((reserved + kept).millis()).max(0);
        // Only cores are counted in thousandths; everything else comes in whole units.
        let left =
            if name == "cpu" { Quantity::from_millis(left) } else { Quantity::from_units(left / 1000) };
        (name.clone(), left)
    };
    capacity.iter().map(left).collect()
}

/// The number of processors of the machine, which is more than the agent may use if the agent itself is restricted to
/// some of them.
fn cpus() -> Option<usize> {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = listed.and_then(|list| count_cpus(&list));
    online.or_else(|| std::thread::available_parallelism().ok().map(usize::from))
}

/// Counts the processors in a kernel list like `0-3,8`.
fn count_cpus(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0_usize, |sum, range| sum.checked_add(count(range)?))
}

/// The memory in preallocated huge pages, in bytes, by resource name (`hugepages-2Mi`).
fn huge_pages(folder: &Path) -> impl Iterator<Item = (String, Quantity)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let kilobytes: i64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?;
        let bytes = count.trim().parse::<i64>().ok()?.checked_mul(kilobytes)?.checked_mul(1024)?;
        Some((format!("hugepages-{}", binary(kilobytes)), Quantity::from_units(bytes)))
    })
}

fn binary(kilobytes: i64) -> String {
    match kilobytes {
        size if size % (1 << 20) == 0 => format!("{}Gi", size >> 20),
        size if size % (1 << 10) == 0 => format!("{}Mi", size >> 10),
        size => format!("{size}Ki"),
    }
}

/// The node as admission sees it.
pub(super) fn admission(
    name: &str,
    plan: &Plan,
    allocatable: BTreeMap<String, Quantity>,
    runtime: RuntimeFeatures,
) -> Node {
    let usual = [("hostname", name), ("os", "linux"), ("arch", architecture())];
    let usual = usual.map(|(key, value)| (format!("kubernetes.io/{key}"), value.to_owned()));
    let node = Node::named(name);
    Node {
        labels: usual.into_iter().chain(plan.node_labels.iter().cloned()).collect(),
        allocatable,
        max_pods: plan.node.max_pods.unwrap_or(node.max_pods),
        unsafe_sysctls: plan.node.unsafe_sysctls.clone(),
        app_armor: has_app_armor(),
        runtime,
        ..node
    }
}

/// The architecture of this machine, by its Kubernetes name.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

fn has_app_armor() -> bool {
    let enabled = std::fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    enabled.is_ok_and(|text| text.starts_with('Y'))
}

/// Whether `SELinux` labels have an effect.
pub(super) fn has_selinux() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// The properties of the machine that container limits depend on.
pub(super) fn machine(capacity: &BTreeMap<String, Quantity>, config: &NodeConfig) -> Machine {
    let usual = Machine::default();
    let exists = |path: &str| Path::new(path).exists();
    let unified_cgroups = exists("/sys/fs/cgroup/cgroup.controllers");
    let period = config.cpu_period.and_then(|period| i64::try_from(period.as_micros()).ok());
    let counts_huge_pages = exists("/sys/fs/cgroup/hugetlb")
        || std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|controllers| controllers.split_whitespace().any(|one| one == "hugetlb"));
    let sizes = capacity.keys().filter_map(|name| name.strip_prefix("hugepages-")?.parse::<Quantity>().ok());
    Machine {
        memory: capacity.get("memory").map_or(usual.memory, |memory| memory.units()),
        unified_cgroups,
        swap_accounting: if unified_cgroups {
            // The root group has no such file; any group below it has.
            let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
            groups.map(|group| group.path().join("memory.swap.max")).any(|file| file.exists())
        } else {
            exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
        },
        huge_page_sizes: sizes.filter(|_| counts_huge_pages).map(Quantity::units).collect(),
        cpu_quota: config.cpu_quota.unwrap_or(usual.cpu_quota),
        cpu_period: period.unwrap_or(usual.cpu_period),
        single_process_oom_kill: config.single_process_oom_kill,
    }
}

/// Paths to hide from containers besides the usual ones: the temperature throttling of a processor reveals its load.
pub(super) fn hidden_paths() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut paths: Vec<String> = entries
        .map(|entry| entry.path().join("thermal_throttle"))
        .filter(|path| path.exists())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    paths.sort();
    paths
}

fn units(count: usize) -> Quantity {
    Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The machine's memory in bytes, read from `/proc/meminfo`.
fn total_memory(meminfo: &str) -> Option<i64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: i64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kilobytes() {
        assert_eq!(total_memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16_777_216));
        assert_eq!(total_memory("nothing"), None);
    }

    #[test]
    fn processors_are_counted_in_ranges() {
        let table = [
            ("0\n", Some(1)),
            ("0-3\n", Some(4)),
            ("0-3,8", Some(5)),
            ("0,2-3,5-7", Some(6)),
            ("", None),
            ("\n", None),
            ("3-0", None),
            ("0-", None),
            ("all", None),
            ("0-18446744073709551615", None),
            ("-1", None),
        ];
        for (list, wanted) in table {
            assert_eq!(count_cpus(list), wanted, "{list:?}");
        }
    }

    #[test]
    fn pods_do_not_get_what_is_reserved_kept_free_or_huge() {
        let capacity: BTreeMap<String, Quantity> = [
            ("cpu".to_owned(), Quantity::from_units(4)),
            ("memory".to_owned(), Quantity::from_units(8 << 30)),
            ("ephemeral-storage".to_owned(), Quantity::from_units(1000)),
            ("hugepages-1Gi".to_owned(), Quantity::from_units(2 << 30)),
        ]
        .into();
        let mut config = NodeConfig::default();
        let numbers = |config: &NodeConfig| {
            let left = allocatable(&capacity, config);
            let of = |name: &str| left[name];
            [
                of("cpu").millis(),
                of("memory").units(),
                of("ephemeral-storage").units(),
                of("hugepages-1Gi").units(),
            ]
        };
        assert_eq!(numbers(&config), [4000, (6 << 30) - (100 << 20), 900, 2 << 30]);
        config.reserved = [
            ("cpu".to_owned(), Quantity::from_millis(500)),
            ("memory".to_owned(), Quantity::from_units(1 << 30)),
        ]
        .into();
        assert_eq!(numbers(&config), [3500, (5 << 30) - (100 << 20), 900, 2 << 30]);
        config.reserved = [("cpu".to_owned(), Quantity::from_units(9))].into();
        assert_eq!(numbers(&config)[0], 0);
    }

    #[test]
    fn sizes_of_pages_are_named_as_in_pods() {
        assert_eq!([64, 2048, 1 << 20].map(binary), ["64Ki", "2Mi", "1Gi"]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("hugepages-2048kB")).unwrap();
        std::fs::write(folder.path().join("hugepages-2048kB/nr_hugepages"), "3\n").unwrap();
        let found: Vec<(String, Quantity)> = huge_pages(folder.path()).collect();
        assert_eq!(found, [("hugepages-2Mi".to_owned(), Quantity::from_units(6 << 20))]);
    }
}
