//! Profiles from files: JSON in the format of the OCI runtime spec, with docker's extensions.

use serde::Deserialize;

use super::arch::Arch;
use super::policy::{Action, Circumstances, Condition, EPERM, Policy, Rule, Test};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default, deserialize_with = "or_nothing")]
    architectures: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    arch_map: Vec<ArchMap>,
    #[serde(default, deserialize_with = "or_nothing")]
    flags: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    listener_path: String,
    #[serde(default, deserialize_with = "or_nothing")]
    syscalls: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchMap {
    architecture: String,
    #[serde(default, deserialize_with = "or_nothing")]
    sub_architectures: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default, deserialize_with = "or_nothing")]
    names: Vec<String>,
    /// The format of older files.
    #[serde(default, deserialize_with = "or_nothing")]
    name: String,
    action: String,
    errno_ret: Option<u16>,
    #[serde(default, deserialize_with = "or_nothing")]
    args: Vec<Argument>,
    #[serde(default, deserialize_with = "or_nothing")]
    includes: Circumstance,
    #[serde(default, deserialize_with = "or_nothing")]
    excludes: Circumstance,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u8,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// When a rule applies.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Circumstance {
    #[serde(default, deserialize_with = "or_nothing")]
    caps: Vec<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    arches: Vec<String>,
    min_kernel: Option<String>,
}

/// Deserializes `null`, which profiles use for an absent value, as the default.
fn or_nothing<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("not a profile in JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "{place}: {name:?} is not an action; use SCMP_ACT_ALLOW, _ERRNO, _LOG, _TRACE, _TRAP, _KILL or _KILL_PROCESS"
    )]
    Action { place: String, name: String },
    #[error("{place}: SCMP_ACT_NOTIFY is not supported: there is no process to notify; use another action")]
    Notify { place: String },
    #[error("architectures: {0:?} is not an architecture")]
    Arch(String),
    #[error("both architectures and archMap are set; remove one")]
    TwoArchitectures,
    #[error("syscalls[{0}]: no system call is named")]
    Nameless(usize),
    #[error("syscalls[{entry}].args: {op:?} is not a comparison")]
    Operator { entry: usize, op: String },
    #[error("syscalls[{entry}].args: there is no argument {index}; arguments are 0 to 5")]
    Index { entry: usize, index: u8 },
    #[error("syscalls[{entry}].{place}.minKernel: {text:?} is not a version such as 4.8")]
    Kernel { entry: usize, place: &'static str, text: String },
    #[error("flags: {0:?} is not supported; remove it")]
    Flag(String),
}

/// Parses a profile. Also returns the names in it that are no system calls on any architecture that we know.
pub(super) fn parse(
    text: &[u8],
    circumstances: &Circumstances<'_>,
) -> Result<(Policy, Vec<String>), Problem> {
    let document: Document = serde_json::from_slice(text)?;
    if !document.listener_path.is_empty() {
        return Err(Problem::Notify { place: "listenerPath".to_owned() });
    }
    let default = action("defaultAction", &document.default_action, document.default_errno_ret)?;
    let architectures = architectures(&document, circumstances.host)?;
    let flags = flags(&document.flags)?;
    let mut rules = Vec::new();
    let mut unknown = Vec::new();
    for (index, entry) in document.syscalls.into_iter().enumerate() {
        let counts = applies(&entry, index, circumstances)?;
        let names: Vec<String> =
            entry.names.into_iter().chain([entry.name]).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Err(Problem::Nameless(index));
        }
        let action = action(&format!("syscalls[{index}].action"), &entry.action, entry.errno_ret)?;
        let conditions =
            entry.args.iter().map(|argument| condition(index, argument)).collect::<Result<Vec<_>, _>>()?;
        if !counts || action == default {
            continue;
        }
        let is_known = |name: &String| Arch::ALL.iter().any(|arch| arch.number(name).is_some());
        unknown.extend(names.iter().filter(|name| !is_known(name)).cloned());
        rules.extend(split(conditions).into_iter().map(|conditions| Rule {
            names: names.clone(),
            conditions,
            action,
        }));
    }
    // A rule without conditions precedes those with conditions, wherever it is written, as with other runtimes.
    rules.sort_by_key(|rule| !rule.conditions.is_empty());
    Ok((Policy { architectures, rules, default, flags }, unknown))
}

/// Splits conditions into alternatives. Conditions must hold together, but if any share an argument, they are
/// alternatives.
fn split(conditions: Vec<Condition>) -> Vec<Vec<Condition>> {
    let mut arguments: Vec<u8> = conditions.iter().map(|condition| condition.argument).collect();
    arguments.sort_unstable();
    arguments.dedup();
    if arguments.len() == conditions.len() {
        vec![conditions]
    } else {
        conditions.into_iter().map(|condition| vec![condition]).collect()
    }
}

fn action(place: &str, name: &str, data: Option<u16>) -> Result<Action, Problem> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_ERRNO" => Action::Errno(data.unwrap_or(EPERM)),
        "SCMP_ACT_TRACE" => Action::Trace(data.unwrap_or(EPERM)),
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        "SCMP_ACT_NOTIFY" => return Err(Problem::Notify { place: place.to_owned() }),
        _ => return Err(Problem::Action { place: place.to_owned(), name: name.to_owned() }),
    })
}

/// Returns the architectures of a profile, always including the host's own. Those of other machines are ignored.
fn architectures(document: &Document, host: Arch) -> Result<Vec<Arch>, Problem> {
    if !document.architectures.is_empty() && !document.arch_map.is_empty() {
        return Err(Problem::TwoArchitectures);
    }
    let own = document.arch_map.iter().find(|entry| Arch::from_profile(&entry.architecture) == Some(host));
    let mapped = document.arch_map.iter().map(|entry| &entry.architecture);
    let names = document.architectures.iter().chain(own.iter().flat_map(|entry| &entry.sub_architectures));
    for name in names.clone().chain(mapped) {
        if !name.starts_with("SCMP_ARCH_") {
            return Err(Problem::Arch(name.clone()));
        }
    }
    let mut list = vec![host];
    for arch in names.filter_map(|name| Arch::from_profile(name)) {
        if host.family().contains(&arch) && !list.contains(&arch) {
            list.push(arch);
        }
    }
    Ok(list)
}

/// Flags of `seccomp(2)`.
fn flags(names: &[String]) -> Result<u32, Problem> {
    names.iter().try_fold(0, |flags, name| match name.as_str() {
        // No effect: the filter is loaded while there is only one thread.
        "SECCOMP_FILTER_FLAG_TSYNC" => Ok(flags),
        "SECCOMP_FILTER_FLAG_LOG" => Ok(flags | 2),
        "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => Ok(flags | 4),
        _ => Err(Problem::Flag(name.clone())),
    })
}

fn condition(entry: usize, argument: &Argument) -> Result<Condition, Problem> {
    if argument.index > 5 {
        return Err(Problem::Index { entry, index: argument.index });
    }
    let value = argument.value;
    let test = match argument.op.as_str() {
        "SCMP_CMP_EQ" => Test::Equal(value),
        "SCMP_CMP_NE" => Test::NotEqual(value),
        "SCMP_CMP_LT" => Test::Less(value),
        "SCMP_CMP_LE" => Test::LessOrEqual(value),
        "SCMP_CMP_GT" => Test::Greater(value),
        "SCMP_CMP_GE" => Test::GreaterOrEqual(value),
        "SCMP_CMP_MASKED_EQ" => Test::Masked { mask: value, value: argument.value_two },
        _ => return Err(Problem::Operator { entry, op: argument.op.clone() }),
    };
    Ok(Condition { argument: argument.index, test })
}

fn applies(entry: &Entry, index: usize, circumstances: &Circumstances<'_>) -> Result<bool, Problem> {
    let has = |name: &String| circumstances.capabilities.contains(name.strip_prefix("CAP_").unwrap_or(name));
    let is_here = |name: &String| name == circumstances.host.in_conditions();
    let is_new = |place, version: &Option<String>| -> Result<Option<bool>, Problem> {
        let Some(text) = version else { return Ok(None) };
        let problem = || Problem::Kernel { entry: index, place, text: text.clone() };
        let (major, minor) = text.split_once('.').ok_or_else(problem)?;
        let wanted = (major.parse().map_err(|_| problem())?, minor.parse().map_err(|_| problem())?);
        Ok(Some(circumstances.kernel >= wanted))
    };
    let (includes, excludes) = (&entry.includes, &entry.excludes);
    let included = includes.caps.iter().all(has)
        && (includes.arches.is_empty() || includes.arches.iter().any(is_here))
        && is_new("includes", &includes.min_kernel)?.unwrap_or(true);
    let excluded = excludes.caps.iter().any(has)
        || excludes.arches.iter().any(is_here)
        || is_new("excludes", &excludes.min_kernel)?.unwrap_or(false);
    Ok(included && !excluded)
}
