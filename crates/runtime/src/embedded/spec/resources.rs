//! Limits of a container, in the OCI spec's words.

use rubelet_cri::v1;
use serde_json::{Map, Value, json};

use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};
use crate::embedded::facts::Facts;

const FIELD: &str = "linux.resources";

/// The OCI `linux.resources` object. Zero means "not said", as everywhere in the CRI.
pub(crate) fn linux(
    wanted: Option<&v1::LinuxContainerResources>,
    facts: &Facts,
) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    let Some(wanted) = wanted else { return Ok(out) };
    let needs = |field: &str| {
        Error::unsupported(format!("{FIELD}.{field}"), "this machine has no such control group")
    };
    let have = |controller: &str| facts.cgroups.folder(controller, "/.").is_some();

    let mut cpu = Map::new();
    let numbers = [("period", wanted.cpu_period, "cpu_period"), ("shares", wanted.cpu_shares, "cpu_shares")];
    for (key, value, field) in numbers {
        match value {
            0 => {}
            1.. => {
                cpu.insert(key.to_owned(), json!(value));
            }
            _ => return Err(Error::invalid(format!("{FIELD}.{field}"), format!("{value} is negative"))),
        }
    }
    if wanted.cpu_quota != 0 {
        cpu.insert("quota".to_owned(), json!(wanted.cpu_quota));
    }
    for (key, value) in [("cpus", &wanted.cpuset_cpus), ("mems", &wanted.cpuset_mems)] {
        if !value.is_empty() {
            cpu.insert(key.to_owned(), json!(value));
        }
    }
    if !cpu.is_empty() {
        if !have("cpu") {
            return Err(needs("cpu_quota"));
        }
        out.insert("cpu".to_owned(), Value::Object(cpu));
    }

    let mut memory = Map::new();
    let (limit, swap) = (wanted.memory_limit_in_bytes, wanted.memory_swap_limit_in_bytes);
    if limit != 0 {
        memory.insert("limit".to_owned(), json!(limit));
    }
    if swap != 0 {
        if facts.swap_limit {
            memory.insert("swap".to_owned(), json!(swap));
        } else if swap != limit {
            // "No swap at all" is what a machine without swap accounting gives anyway to a group within its limit.
            return Err(Error::unsupported(
                format!("{FIELD}.memory_swap_limit_in_bytes"),
                "swap is not accounted for here",
            ));
        }
    }
    if !memory.is_empty() {
        if !have("memory") {
            return Err(needs("memory_limit_in_bytes"));
        }
        out.insert("memory".to_owned(), Value::Object(memory));
    }

    let pages: Vec<Value> = wanted
        .hugepage_limits
        .iter()
        .filter(|_| have("hugetlb") || matches!(facts.cgroups, Cgroups::V2(_)))
        .map(|limit| json!({ "pageSize": limit.page_size, "limit": limit.limit }))
        .collect();
    if let (true, Some(limit)) =
        (pages.is_empty(), wanted.hugepage_limits.iter().find(|limit| limit.limit > 0))
    {
        return Err(needs(&format!("hugepage_limits[{}]", limit.page_size)));
    }
    if !pages.is_empty() {
        out.insert("hugepageLimits".to_owned(), json!(pages));
    }

    if !wanted.unified.is_empty() {
        if !matches!(facts.cgroups, Cgroups::V2(_)) {
            return Err(Error::unsupported(format!("{FIELD}.unified"), "this machine uses cgroup v1"));
        }
        out.insert("unified".to_owned(), json!(wanted.unified));
    }
    Ok(out)
}

/// Without the right to lower a score, a container's cannot be below our own.
pub(crate) fn oom_score(wanted: i64, facts: &Facts) -> i64 {
    wanted.clamp(-1000, 1000).max(facts.oom_score_floor)
}
