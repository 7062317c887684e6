//! The node-wide part of a configuration file: how much of the node pods may use, and how they are isolated.

use std::collections::BTreeMap;
use std::time::Duration;

use rubelet_agent::admission::SysctlPattern;
use rubelet_agent::cgroup::Driver;
use rubelet_agent::resource::Quantity;

use super::{ConfigError, Fields, wrong};

/// The node-wide settings of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeConfig {
    pub(crate) max_pods: Option<usize>,
    /// Resources that are reserved, and so not available to pods.
    pub(crate) reserved: BTreeMap<String, Quantity>,
    /// How much memory, and how much of the data folder's disk, is kept free.
    pub(crate) kept_free: KeptFree,
    pub(crate) unsafe_sysctls: Vec<SysctlPattern>,
    pub(crate) seccomp_default: bool,
    pub(crate) cpu_quota: Option<bool>,
    pub(crate) cpu_period: Option<Duration>,
    pub(crate) single_process_oom_kill: bool,
    /// The number of ids for a pod with a user namespace.
    pub(crate) ids_per_pod: Option<u32>,
    pub(crate) groups: GroupConfig,
}

/// The settings for the control groups of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupConfig {
    /// Whether pods get control groups of their own.
    pub(crate) are_made: bool,
    /// Whether all pods together are limited to what is not reserved.
    pub(crate) are_held: bool,
    /// Who creates the groups, if the runtime does not say.
    pub(crate) driver: Option<Driver>,
    /// The parent group.
    pub(crate) root: Option<String>,
    pub(crate) pids_limit: Option<i64>,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self { are_made: true, are_held: true, driver: None, root: None, pids_limit: None }
    }
}

/// The memory and disk space to keep free: the two thresholds of a kubelet's `evictionHard` that reduce what pods may
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptFree {
    pub(crate) memory: Threshold,
    pub(crate) disk: Threshold,
}

impl Default for KeptFree {
    /// The kubelet's defaults.
    fn default() -> Self {
        Self { memory: Threshold::Amount(Quantity::from_units(100 << 20)), disk: Threshold::Percent(10) }
    }
}

/// An absolute amount, or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threshold {
    Amount(Quantity),
    Percent(i64),
}

impl Threshold {
    /// Returns how much that is of a whole.
    pub(crate) fn of(self, whole: Quantity) -> Quantity {
        match self {
            Self::Amount(amount) => amount,
            Self::Percent(percent) => Quantity::from_units(
                i64::try_from(i128::from(whole.units()) * i128::from(percent) / 100).unwrap_or(0),
            ),
        }
    }

    fn read(text: &str) -> Result<Self, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Self::Amount).map_err(|error| format!("{error}"));
        };
        match percent.parse() {
            Ok(percent) if (0..=100).contains(&percent) => Ok(Self::Percent(percent)),
            _ => Err(format!("{text:?} is not a percentage")),
        }
    }
}

impl NodeConfig {
    /// Takes the node-wide fields; those without effect are added to `ignored`.
    pub(super) fn take(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Self, ConfigError> {
        let mut reserved = BTreeMap::new();
        for field in ["systemReserved", "kubeReserved"] {
            for (name, text) in fields.take::<BTreeMap<String, String>>(field)?.unwrap_or_default() {
                if !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    ignored.push(format!("{field}.{name}"));
                    continue;
                }
                let amount: Quantity = text.parse().map_err(|error| wrong(field, &error))?;
                let sum = reserved.entry(name).or_insert(Quantity::ZERO);
                *sum = *sum + amount;
            }
        }
        let patterns = fields.take::<Vec<String>>("allowedUnsafeSysctls")?.unwrap_or_default();
        let unsafe_sysctls: Result<Vec<SysctlPattern>, _> =
            patterns.iter().map(|text| text.parse()).collect();
        Ok(Self {
            max_pods: fields.amount("maxPods")?,
            reserved,
            kept_free: kept_free(fields, ignored)?,
            unsafe_sysctls: unsafe_sysctls.map_err(|error| wrong("allowedUnsafeSysctls", &error))?,
            seccomp_default: fields.take("seccompDefault")?.unwrap_or(false),
            cpu_quota: fields.take("cpuCFSQuota")?,
            cpu_period: cpu_period(fields)?,
            single_process_oom_kill: fields.take("singleProcessOOMKill")?.unwrap_or(false),
            ids_per_pod: ids_per_pod(fields, ignored)?,
            groups: GroupConfig {
                are_made: fields.take("cgroupsPerQOS")?.unwrap_or(true),
                are_held: are_held(fields, ignored)?,
                driver: match fields.amount::<String>("cgroupDriver")? {
                    Some(text) => Some(text.parse().map_err(|error| wrong("cgroupDriver", &error))?),
                    None => None,
                },
                root: fields.amount("cgroupRoot")?,
                // A negative number means no limit.
                pids_limit: fields.take::<i64>("podPidsLimit")?.filter(|limit| *limit > 0),
            },
        })
    }
}

fn ids_per_pod(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Option<u32>, ConfigError> {
    const FIELD: &str = "userNamespaces";
    let mut nested = fields.take::<BTreeMap<String, Option<i64>>>(FIELD)?.unwrap_or_default();
    let number = nested.remove("idsPerPod").flatten();
    ignored.extend(nested.into_keys().map(|field| format!("{FIELD}.{field}")));
    let Some(number) = number else { return Ok(None) };
    match u32::try_from(number) {
        Ok(number @ 1..) if number.is_multiple_of(65_536) => Ok(Some(number)),
        _ => Err(wrong("userNamespaces.idsPerPod", &"must be a multiple of 65536 and less than 1<<32")),
    }
}

fn cpu_period(fields: &mut Fields) -> Result<Option<Duration>, ConfigError> {
    const FIELD: &str = "cpuCFSQuotaPeriod";
    let period = fields.duration(FIELD)?;
    // The range that the kernel accepts.
    let allowed = Duration::from_millis(1)..=Duration::from_secs(1);
    if period.is_some_and(|period| !allowed.contains(&period)) {
        return Err(wrong(FIELD, &"must be from 1ms to 1s"));
    }
    Ok(period)
}

/// Whether a kubelet's `enforceNodeAllocatable` includes pods. Its other values have no effect.
fn are_held(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<bool, ConfigError> {
    let Some(enforced) = fields.take::<Vec<String>>("enforceNodeAllocatable")? else { return Ok(true) };
    let others = enforced.iter().filter(|name| !matches!(name.as_str(), "pods" | "none" | ""));
    ignored.extend(others.map(|name| format!("enforceNodeAllocatable: {name}")));
    Ok(enforced.iter().any(|name| name == "pods"))
}

fn kept_free(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<KeptFree, ConfigError> {
    const FIELD: &str = "evictionHard";
    let mut kept = KeptFree::default();
    let Some(signals) = fields.take::<BTreeMap<String, String>>(FIELD)? else { return Ok(kept) };
    // In a file that sets some thresholds, those it leaves out are off.
    kept = KeptFree { memory: Threshold::Percent(0), disk: Threshold::Percent(0) };
    for (signal, text) in signals {
        let threshold = || Threshold::read(&text).map_err(|error| wrong(FIELD, &error));
        match signal.as_str() {
            "memory.available" => kept.memory = threshold()?,
            "nodefs.available" => kept.disk = threshold()?,
            _ => ignored.push(format!("{FIELD}.{signal}")),
        }
    }
    Ok(kept)
}
