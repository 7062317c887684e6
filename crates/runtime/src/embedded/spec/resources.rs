//! The limits of a container, as in the OCI spec.

use rubelet_cri::v1;
use serde_json::{Map, Value, json};

use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};
use crate::embedded::facts::Facts;

const FIELD: &str = "linux.resources";

type Object = Map<String, Value>;

/// Returns the OCI `linux.resources` object. Zero means "not specified", as everywhere in the CRI.
pub(crate) fn linux(wanted: Option<&v1::LinuxContainerResources>, facts: &Facts) -> Result<Object> {
    let mut out = Map::new();
    let Some(wanted) = wanted else { return Ok(out) };
    for (key, part) in [("cpu", cpu(wanted, facts)?), ("memory", memory(wanted, facts)?)] {
        if !part.is_empty() {
            out.insert(key.to_owned(), Value::Object(part));
        }
    }
    let pages = huge_pages(wanted, facts)?;
    if !pages.is_empty() {
        out.insert("hugepageLimits".to_owned(), Value::Array(pages));
    }
    match facts.cgroups {
        Cgroups::V2(_) => out.extend(unified(wanted)?),
        Cgroups::V1(_) | Cgroups::None => out.extend(unified_in_v1(wanted, facts)?),
    }
    Ok(out)
}

fn needs(facts: &Facts, controller: &str, field: &str) -> Result<()> {
    if facts.cgroups.folder(controller, "/.").is_some() {
        return Ok(());
    }
    let problem = if facts.rootless {
        "limits need control groups, which need root"
    } else {
        "this machine has no such control group"
    };
    Err(Error::unsupported(format!("{FIELD}.{field}"), problem))
}

fn cpu(wanted: &v1::LinuxContainerResources, facts: &Facts) -> Result<Object> {
    let mut cpu = Map::new();
    let numbers = [
        ("period", wanted.cpu_period, "cpu_period", 1),
        ("shares", wanted.cpu_shares, "cpu_shares", 1),
        ("quota", wanted.cpu_quota, "cpu_quota", UNLIMITED),
    ];
    for (key, value, field, least) in numbers {
        if value != 0 {
            at_least(least, value, field)?;
            needs(facts, "cpu", field)?;
            cpu.insert(key.to_owned(), json!(value));
        }
    }
    let sets = [("cpus", &wanted.cpuset_cpus, "cpuset_cpus"), ("mems", &wanted.cpuset_mems, "cpuset_mems")];
    for (key, value, field) in sets {
        if !value.is_empty() {
            needs(facts, "cpuset", field)?;
            cpu.insert(key.to_owned(), json!(value));
        }
    }
    Ok(cpu)
}

fn memory(wanted: &v1::LinuxContainerResources, facts: &Facts) -> Result<Object> {
    let mut memory = Map::new();
    let (limit, swap) = (wanted.memory_limit_in_bytes, wanted.memory_swap_limit_in_bytes);
    if limit != 0 {
        const NAME: &str = "memory_limit_in_bytes";
        at_least(UNLIMITED, limit, NAME)?;
        needs(facts, "memory", NAME)?;
        memory.insert("limit".to_owned(), json!(limit));
    }
    if swap != 0 {
        const NAME: &str = "memory_swap_limit_in_bytes";
        at_least(UNLIMITED, swap, NAME)?;
        if facts.swap_limit {
            memory.insert("swap".to_owned(), json!(swap));
        } else if swap != limit {
            // "No swap at all" needs no error: without swap accounting, a group within its limit gets that anyway.
            return Err(Error::unsupported(format!("{FIELD}.{NAME}"), "this machine has no swap accounting"));
        }
    }
    Ok(memory)
}

/// The value for "no limit", on both v1 and v2.
const UNLIMITED: i64 = -1;

fn at_least(least: i64, value: i64, field: &str) -> Result<()> {
    if value >= least {
        return Ok(());
    }
    Err(Error::invalid(format!("{FIELD}.{field}"), format!("{value} is not a limit: the minimum is {least}")))
}

fn huge_pages(wanted: &v1::LinuxContainerResources, facts: &Facts) -> Result<Vec<Value>> {
    let mut pages = Vec::new();
    for page in &wanted.hugepage_limits {
        let field = format!("hugepage_limits[{}]", page.page_size);
        if !is_page_size(&page.page_size) {
            let problem = format!("{:?} is not a page size such as 2MB", page.page_size);
            return Err(Error::invalid(format!("{FIELD}.hugepage_limits"), problem));
        }
        match needs(facts, "hugetlb", &field) {
            Ok(()) => pages.push(json!({ "pageSize": page.page_size, "limit": page.limit })),
            // Every kubelet sends a limit of zero for each page size: a machine that cannot count such pages has none.
            Err(_) if page.limit == 0 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pages)
}

/// Whether it is a valid page size, since it becomes part of a file name.
fn is_page_size(text: &str) -> bool {
    let number = ["KB", "MB", "GB"].iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn unified_field(file: &str) -> String {
    format!("{FIELD}.unified[{file:?}]")
}

fn unified(wanted: &v1::LinuxContainerResources) -> Result<Option<(String, Value)>> {
    if let Some(file) = wanted.unified.keys().find(|file| file.contains('/') || !file.contains('.')) {
        return Err(Error::invalid(unified_field(file), "is not a control group file"));
    }
    Ok((!wanted.unified.is_empty()).then(|| ("unified".to_owned(), json!(wanted.unified))))
}

/// Returns the only v2 limit that v1 supports as well and for which CRI has no field: the number of processes.
fn unified_in_v1(wanted: &v1::LinuxContainerResources, facts: &Facts) -> Result<Option<(String, Value)>> {
    if let Some(file) = wanted.unified.keys().find(|file| *file != PIDS) {
        return Err(Error::unsupported(unified_field(file), "this machine uses cgroup v1"));
    }
    let Some(text) = wanted.unified.get(PIDS) else { return Ok(None) };
    needs(facts, "pids", &format!("unified[{PIDS:?}]"))?;
    let limit = match text.trim() {
        "max" => UNLIMITED,
        number => number.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| {
            Error::invalid(unified_field(PIDS), format!("{text:?} is neither a number nor \"max\""))
        })?,
    };
    Ok(Some(("pids".to_owned(), json!({ "limit": limit }))))
}

/// The file with the limit of processes, in both versions.
pub(crate) const PIDS: &str = "pids.max";

/// Returns the score that this process may set: without the capability to lower scores, it is not below our own.
pub(crate) fn oom_score(wanted: i64, facts: &Facts) -> i64 {
    wanted.clamp(-1000, 1000).max(facts.oom_score_floor)
}
