//! `UpdateContainerResources`: changes the limits of a container, before its start or while it is running.

use std::fs;
use std::sync::Arc;

use prost::Message as _;
use rubelet_cri::v1;
use serde_json::Value;

use super::cgroup::Cgroups;
use super::container::SPEC;
use super::error::{Error, Result};
use super::facts::Facts;
use super::runtime::{Runtime, blocking};
use super::spec;
use super::store::{self, Durability};

impl Runtime {
    pub(crate) async fn update_resources(
        self: &Arc<Self>,
        request: v1::UpdateContainerResourcesRequest,
    ) -> Result<()> {
        if request.windows.is_some() {
            return Err(Error::unsupported("windows", "not supported on Linux"));
        }
        let Some(wanted) = request.linux else { return Ok(()) };
        let container = self.registry.container(&request.container_id)?;
        let _work = container.work.lock().await;
        let state = container.state();
        if !state.can_update() {
            return Err(Error::State(format!("container {} is {}", container.id(), state.name())));
        }
        let merged = merge(container.resources.lock().clone().unwrap_or_default(), &wanted);
        let (runtime, group, new) = (Arc::clone(self), container.record.cgroup.clone(), merged.clone());
        let folder = self.layout.container(container.id());
        let mut config = container.config.clone();
        let running = state.can_exec();
        blocking(move || {
            if running {
                apply(&runtime.facts, &group, &wanted, &new)?;
            }
            let resources = spec::linux_resources(Some(&new), &runtime.facts)?;
            let path = folder.join(SPEC);
            if let Some(mut spec) = store::read_json::<Value>(&path)? {
                let devices = spec["linux"]["resources"]["devices"].take();
                spec["linux"]["resources"] = Value::Object(resources);
                spec["linux"]["resources"]["devices"] = devices;
                store::write_json(&path, &spec, Durability::Process)?;
            }
            config.linux.get_or_insert_default().resources = Some(new);
            store::write(&folder.join(store::REQUEST), &config.encode_to_vec(), Durability::Process)
        })
        .await?;
        *container.resources.lock() = Some(merged);
        Ok(())
    }
}

/// Merges new limits into the old ones: unspecified values stay as they were.
fn merge(old: v1::LinuxContainerResources, new: &v1::LinuxContainerResources) -> v1::LinuxContainerResources {
    let number = |new: i64, old: i64| if new == 0 { old } else { new };
    let text = |new: &String, old: String| if new.is_empty() { old } else { new.clone() };
    let mut unified = old.unified;
    unified.extend(new.unified.clone());
    v1::LinuxContainerResources {
        cpu_period: number(new.cpu_period, old.cpu_period),
        cpu_quota: number(new.cpu_quota, old.cpu_quota),
        cpu_shares: number(new.cpu_shares, old.cpu_shares),
        memory_limit_in_bytes: number(new.memory_limit_in_bytes, old.memory_limit_in_bytes),
        oom_score_adj: number(new.oom_score_adj, old.oom_score_adj),
        cpuset_cpus: text(&new.cpuset_cpus, old.cpuset_cpus),
        cpuset_mems: text(&new.cpuset_mems, old.cpuset_mems),
        hugepage_limits: if new.hugepage_limits.is_empty() {
            old.hugepage_limits
        } else {
            new.hugepage_limits.clone()
        },
        unified,
        memory_swap_limit_in_bytes: number(new.memory_swap_limit_in_bytes, old.memory_swap_limit_in_bytes),
    }
}

/// A file of a control group, and what to write to it.
#[derive(Debug, PartialEq, Eq)]
struct Write {
    controller: &'static str,
    file: String,
    value: String,
}

fn write(controller: &'static str, file: impl Into<String>, value: &dyn ToString) -> Write {
    Write { controller, file: file.into(), value: value.to_string() }
}

/// Returns the writes for a change, in order. `merged` are all limits after the change; `now` is v1's current limit of
/// memory and swap together. Pure.
fn writes(
    cgroups: &Cgroups,
    wanted: &v1::LinuxContainerResources,
    merged: &v1::LinuxContainerResources,
    now: Option<u64>,
) -> Vec<Write> {
    let mut list = match cgroups {
        Cgroups::V2(_) => writes_v2(wanted, merged),
        Cgroups::V1(_) | Cgroups::None => writes_v1(wanted, now),
    };
    for (file, value) in [("cpuset.cpus", &wanted.cpuset_cpus), ("cpuset.mems", &wanted.cpuset_mems)] {
        if !value.is_empty() {
            list.push(write("cpuset", file, &value));
        }
    }
    let suffix = if matches!(cgroups, Cgroups::V2(_)) { "max" } else { "limit_in_bytes" };
    for page in wanted.hugepage_limits.iter().filter(|_| cgroups.folder("hugetlb", "/.").is_some()) {
        list.push(write("hugetlb", format!("hugetlb.{}.{suffix}", page.page_size), &page.limit));
    }
    list
}

/// Returns the writes for v2. A file may hold more than one value: those that were not specified stay as they are.
fn writes_v2(wanted: &v1::LinuxContainerResources, merged: &v1::LinuxContainerResources) -> Vec<Write> {
    let mut list = Vec::new();
    if wanted.cpu_quota != 0 || wanted.cpu_period != 0 {
        let quota = if merged.cpu_quota > 0 { merged.cpu_quota.to_string() } else { "max".to_owned() };
        let period = if merged.cpu_period > 0 { merged.cpu_period } else { 100_000 };
        list.push(write("cpu", "cpu.max", &format!("{quota} {period}")));
    }
    if wanted.cpu_shares > 0 {
        list.push(write("cpu", "cpu.weight", &weight(wanted.cpu_shares)));
    }
    let limit = |bytes: i64| if bytes < 0 { "max".to_owned() } else { bytes.to_string() };
    if wanted.memory_limit_in_bytes != 0 {
        list.push(write("memory", "memory.max", &limit(wanted.memory_limit_in_bytes)));
    }
    if wanted.memory_swap_limit_in_bytes != 0 {
        let swap = match wanted.memory_swap_limit_in_bytes {
            bytes if bytes < 0 => bytes,
            // CRI counts memory and swap together, v2 swap alone.
            bytes => (bytes - merged.memory_limit_in_bytes.max(0)).max(0),
        };
        list.push(write("memory", "memory.swap.max", &limit(swap)));
    }
    for (file, value) in &wanted.unified {
        list.push(write("unified", file, &value));
    }
    list
}

fn writes_v1(wanted: &v1::LinuxContainerResources, now: Option<u64>) -> Vec<Write> {
    let mut list = Vec::new();
    if wanted.cpu_period > 0 {
        list.push(write("cpu", "cpu.cfs_period_us", &wanted.cpu_period));
    }
    if wanted.cpu_quota != 0 {
        list.push(write("cpu", "cpu.cfs_quota_us", &wanted.cpu_quota));
    }
    if wanted.cpu_shares > 0 {
        list.push(write("cpu", "cpu.shares", &wanted.cpu_shares));
    }
    let (limit, swap) = (wanted.memory_limit_in_bytes, wanted.memory_swap_limit_in_bytes);
    if limit != 0 {
        list.push(write("memory", "memory.limit_in_bytes", &limit));
    }
    if let (true, Some(now)) = (swap != 0, now) {
        let both = write("memory", "memory.memsw.limit_in_bytes", &swap);
        // The kernel requires the memory limit to be below that of memory and swap at every step: the latter is raised
        // first, and lowered last.
        let is_raised = swap < 0 || u64::try_from(swap).is_ok_and(|swap| swap > now);
        let place = if is_raised && limit != 0 { list.len() - 1 } else { list.len() };
        list.insert(place, both);
    }
    if let Some(limit) = wanted.unified.get(spec::PIDS) {
        list.push(write("pids", spec::PIDS, &limit));
    }
    list
}

/// Converts shares to a weight, as OCI runtimes do since runc 1.3.2, and libcontainer does when it creates the group:
/// the smallest, usual and largest shares become the smallest, usual and largest weight.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "both are between 1 and 262144"
)]
fn weight(shares: i64) -> i64 {
    match shares {
        ..=2 => 1,
        262_144.. => 10_000,
        _ => {
            let log = (shares as f64).log2();
            10_f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil() as i64
        }
    }
}

/// Applies new limits to a running container.
fn apply(
    facts: &Facts,
    group: &str,
    wanted: &v1::LinuxContainerResources,
    merged: &v1::LinuxContainerResources,
) -> Result<()> {
    spec::linux_resources(Some(wanted), facts)?;
    let both = facts.cgroups.folder("memory", group).map(|folder| folder.join("memory.memsw.limit_in_bytes"));
    let now = both.and_then(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    for Write { controller, file, value } in writes(&facts.cgroups, wanted, merged, now) {
        let folder = facts.cgroups.folder(controller, group).ok_or_else(|| {
            Error::unsupported("linux.resources", format!("no control group on this machine has {file}"))
        })?;
        fs::write(folder.join(&file), &value)
            .map_err(|error| Error::io(format!("set {file} to {value}"), error))?;
    }
    if wanted.oom_score_adj != 0 {
        let score = spec::oom_score(wanted.oom_score_adj, facts).to_string();
        for pid in facts.cgroups.processes(group) {
            // A process that has just ended needs no score.
            let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), &score);
        }
    }
    Ok(())
}

/// Returns the names of the files that a change writes, for tests.
#[cfg(test)]
pub(crate) fn planned_files(facts: &Facts, wanted: &v1::LinuxContainerResources) -> Result<Vec<String>> {
    spec::linux_resources(Some(wanted), facts)?;
    Ok(writes(&facts.cgroups, wanted, wanted, Some(0)).into_iter().map(|write| write.file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::mountinfo;

    fn files(cgroups: &Cgroups, wanted: &v1::LinuxContainerResources) -> Vec<String> {
        changed_files(cgroups, &v1::LinuxContainerResources::default(), wanted)
    }

    fn changed_files(
        cgroups: &Cgroups,
        old: &v1::LinuxContainerResources,
        wanted: &v1::LinuxContainerResources,
    ) -> Vec<String> {
        let merged = merge(old.clone(), wanted);
        let list = writes(cgroups, wanted, &merged, Some(1 << 20)).into_iter();
        list.map(|Write { file, value, .. }| format!("{file}={value}")).collect()
    }

    #[test]
    fn what_is_written_where() {
        let v2 = Cgroups::from_mounts(&mountinfo::parse("1 2 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n"));
        let v1_groups =
            Cgroups::from_mounts(&mountinfo::parse("1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup c rw,cpu\n"));
        let wanted = v1::LinuxContainerResources {
            cpu_quota: 20_000,
            cpu_period: 100_000,
            cpu_shares: 1024,
            memory_limit_in_bytes: 4096,
            ..Default::default()
        };
        assert_eq!(files(&v2, &wanted), ["cpu.max=20000 100000", "cpu.weight=100", "memory.max=4096"]);
        assert_eq!(
            files(&v1_groups, &wanted),
            [
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=20000",
                "cpu.shares=1024",
                "memory.limit_in_bytes=4096"
            ]
        );
        let unlimited =
            v1::LinuxContainerResources { cpu_quota: -1, memory_limit_in_bytes: -1, ..Default::default() };
        assert_eq!(files(&v2, &unlimited), ["cpu.max=max 100000", "memory.max=max"]);
        assert!(files(&v2, &v1::LinuxContainerResources::default()).is_empty());
        // Values that are in the same file, or counted together, stay if they were not specified.
        let period = v1::LinuxContainerResources { cpu_period: 50_000, ..Default::default() };
        assert_eq!(changed_files(&v2, &wanted, &period), ["cpu.max=20000 50000"]);
        let swap = v1::LinuxContainerResources { memory_swap_limit_in_bytes: 5000, ..Default::default() };
        assert_eq!(changed_files(&v2, &wanted, &swap), ["memory.swap.max=904"]);
    }

    #[test]
    fn weights_are_those_that_groups_are_made_with() {
        let table = [
            (1, 1),
            (2, 1),
            (3, 2),
            (102, 17),
            (1024, 100),
            (2048, 174),
            (262_143, 10_000),
            (262_144, 10_000),
            (i64::MAX, 10_000),
        ];
        for (shares, wanted) in table {
            assert_eq!(weight(shares), wanted, "{shares}");
        }
        assert!((2..5000).all(|shares| weight(shares) <= weight(shares + 1)), "more is never less");
    }

    #[test]
    fn the_ceiling_is_raised_first_and_lowered_last() {
        let v1_groups = Cgroups::from_mounts(&mountinfo::parse(
            "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup c rw,memory\n",
        ));
        let both = |limit: i64, swap: i64| {
            files(
                &v1_groups,
                &v1::LinuxContainerResources {
                    memory_limit_in_bytes: limit,
                    memory_swap_limit_in_bytes: swap,
                    ..Default::default()
                },
            )
        };
        let (memory, ceiling) = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes");
        assert_eq!(
            both(2 << 20, 3 << 20),
            [format!("{ceiling}={}", 3 << 20), format!("{memory}={}", 2 << 20)]
        );
        assert_eq!(both(4096, 8192), [format!("{memory}=4096"), format!("{ceiling}=8192")]);
        assert_eq!(both(-1, -1), [format!("{ceiling}=-1"), format!("{memory}=-1")]);
        assert_eq!(both(0, 8192), [format!("{ceiling}=8192")]);
    }

    #[test]
    fn processes_can_be_limited_in_both_versions() {
        let wanted = v1::LinuxContainerResources {
            unified: [("pids.max".to_owned(), "7".to_owned())].into(),
            ..Default::default()
        };
        for table in [
            "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n",
            "1 2 0:1 / /sys/fs/cgroup/pids rw - cgroup c rw,pids\n",
        ] {
            assert_eq!(files(&Cgroups::from_mounts(&mountinfo::parse(table)), &wanted), ["pids.max=7"]);
        }
    }

    #[test]
    fn what_is_not_said_stays() {
        let old =
            v1::LinuxContainerResources { cpu_shares: 5, cpuset_cpus: "0".into(), ..Default::default() };
        let new = v1::LinuxContainerResources { cpu_shares: 7, ..Default::default() };
        let merged = merge(old, &new);
        assert_eq!((merged.cpu_shares, merged.cpuset_cpus.as_str()), (7, "0"));
    }
}
