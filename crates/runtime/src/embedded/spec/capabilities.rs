//! The capabilities of a container.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Input;
use crate::embedded::error::{Error, Result};
use crate::embedded::facts::CAPABILITIES;
use crate::embedded::process::Rights;

/// The default set of every runtime.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

const FIELD: &str = "linux.security_context.capabilities";

/// Returns the five sets of the OCI spec.
pub(super) fn sets(input: &Input<'_>) -> Result<Value> {
    let (granted, ambient) = granted(input)?;
    let names =
        |set: &BTreeSet<String>| -> Vec<String> { set.iter().map(|name| format!("CAP_{name}")).collect() };
    Ok(json!({
        "bounding": names(&granted),
        "effective": names(&granted),
        "permitted": names(&granted),
        "inheritable": names(&ambient),
        "ambient": names(&ambient),
    }))
}

/// The sets that determine a program's capabilities, by name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) bounding: BTreeSet<String>,
    pub(crate) ambient: BTreeSet<String>,
}

impl Names {
    /// Converts them to the kernel's numbers.
    pub(crate) fn bits(&self) -> Rights {
        let bits = |names: &BTreeSet<String>| {
            (0_u64..)
                .zip(CAPABILITIES)
                .filter(|(_, name)| names.contains(*name))
                .fold(0, |bits, (number, _)| bits | 1 << number)
        };
        Rights { bounding: bits(&self.bounding), ambient: bits(&self.ambient) }
    }
}

/// Removes the sets from a spec: we drop capabilities ourselves, not the container library.
pub(crate) fn take(spec: &mut Value) -> Names {
    let sets = spec["process"].as_object_mut().and_then(|process| process.remove("capabilities"));
    let names = |set: &str| {
        let list = sets.as_ref().and_then(|sets| sets[set].as_array()).into_iter().flatten();
        list.filter_map(|name| Some(name.as_str()?.strip_prefix("CAP_")?.to_owned())).collect()
    };
    Names { bounding: names("bounding"), ambient: names("ambient") }
}

fn granted(input: &Input<'_>) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let available = &input.facts.capabilities;
    if input.privileged() {
        return Ok((available.clone(), BTreeSet::new()));
    }
    let asked = input.security().and_then(|context| context.capabilities.clone()).unwrap_or_default();
    let mut set: BTreeSet<String> = DEFAULT.iter().map(|name| (*name).to_owned()).collect();
    let add = parse(&asked.add_capabilities, &format!("{FIELD}.add_capabilities"))?;
    let drop = parse(&asked.drop_capabilities, &format!("{FIELD}.drop_capabilities"))?;
    // "ALL" comes first, so that single names refine it in both directions.
    if add.contains("ALL") {
        set.clone_from(available);
    }
    if drop.contains("ALL") {
        set.clear();
    }
    for name in add.iter().filter(|name| *name != "ALL") {
        if !available.contains(name) {
            let problem = format!("cannot add CAP_{name}: the runtime does not have it itself");
            return Err(Error::unsupported(format!("{FIELD}.add_capabilities"), problem));
        }
        set.insert(name.clone());
    }
    for name in &drop {
        set.remove(name);
    }
    // A runtime with fewer capabilities than usual grants those that it has.
    set.retain(|name| available.contains(name));
    let ambient = parse(&asked.add_ambient_capabilities, &format!("{FIELD}.add_ambient_capabilities"))?;
    for name in &ambient {
        if !set.contains(name) {
            let problem = format!("CAP_{name} must also be in add_capabilities");
            return Err(Error::invalid(format!("{FIELD}.add_ambient_capabilities"), problem));
        }
    }
    Ok((set, ambient))
}

fn parse(names: &[String], field: &str) -> Result<BTreeSet<String>> {
    names
        .iter()
        .map(|name| {
            let upper = name.to_uppercase();
            let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
            if bare == "ALL" || CAPABILITIES.contains(&bare) {
                Ok(bare.to_owned())
            } else {
                Err(Error::invalid(field, format!("{name:?} is not a capability")))
            }
        })
        .collect()
}
