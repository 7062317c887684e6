//! How each field of a pod is treated: it works, it is refused, or it is ignored with a remark. Nothing is ignored
//! silently.

mod table;

use super::Issue;
use super::tree::{Node, Value};
use crate::pod::NODE_CRITICAL;
use crate::resource::Quantity;
use table::{CLOSED_GATES, POD_SPEC};

/// How a field is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It behaves as under a kubelet; with a note, if there is something to add.
    Works(&'static str),
    /// As [`Verdict::Works`], and it has fields itself.
    Parts(&'static Type, &'static str),
    /// A manifest with this field is not used, for this reason.
    Refused(&'static str),
    /// A manifest with this field is used without it, and this remark is reported.
    Ignored(&'static str),
}

use Verdict::{Ignored, Parts};

/// A type of the API, and how its fields are treated.
#[derive(Debug, PartialEq, Eq)]
struct Type {
    name: &'static str,
    fields: &'static [(&'static str, Verdict)],
}

/// Returns what is ignored, or in vain, in a pod as its author wrote it, with lines.
pub(super) fn ignored(pod: &Node<'_>) -> Vec<(u32, Issue)> {
    let mut found = Vec::new();
    if let Some(spec) = pod.get("spec") {
        note(spec, "spec", &POD_SPEC, &mut found);
        if let Some(gates) = spec.get("readinessGates").filter(|gates| !items(Some(gates)).is_empty()) {
            let path = "spec.readinessGates".to_owned();
            found.push((gates.line, Issue::FieldInVain { path, what: CLOSED_GATES }));
        }
        for (index, volume) in items(spec.get("volumes")).iter().enumerate() {
            note_size_limit(volume, &format!("spec.volumes[{index}]"), &mut found);
        }
        for list in ["initContainers", "containers"] {
            for (index, container) in items(spec.get(list)).iter().enumerate() {
                let path = format!("spec.{list}[{index}]");
                note_resources(container, &path, &mut found);
                note_fractions(container, &path, &mut found);
                note_admin(container, &path, &mut found);
            }
        }
        note_fractions(spec, "spec", &mut found);
        note_host_ports(spec, &mut found);
    }
    found
}

fn items<'n, 'a>(node: Option<&'n Node<'a>>) -> &'n [Node<'a>] {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

fn note(node: &Node<'_>, path: &str, of: &Type, found: &mut Vec<(u32, Issue)>) {
    let Value::Map(entries) = &node.value else { return };
    for (name, value) in entries {
        let path = || format!("{path}.{name}");
        match of.fields.iter().find(|(field, _)| field == name) {
            Some((_, Ignored(what))) if asks_for_something(name, &value.value) => {
                found.push((value.line, Issue::IgnoredField { path: path(), what }));
            }
            Some((_, Parts(inside, _))) => {
                note(value, &path(), inside, found);
                for (index, item) in items(Some(value)).iter().enumerate() {
                    note(item, &format!("{}[{index}]", path()), inside, found);
                }
            }
            _ => {}
        }
    }
}

fn note_resources(container: &Node<'_>, path: &str, found: &mut Vec<(u32, Issue)>) {
    let Some(resources) = container.get("resources") else { return };
    for list in ["limits", "requests"] {
        let Some(Value::Map(amounts)) = resources.get(list).map(|node| &node.value) else { continue };
        for (name, amount) in amounts {
            let what = match (list, &**name) {
                ("limits", "ephemeral-storage") => {
                    "nothing is evicted, so the container's disk usage is not limited"
                }
                (_, name) if name.contains('/') => {
                    "there are no device plugins, so the container gets no device"
                }
                _ => continue,
            };
            let path = format!("{path}.resources.{list}[{name}]");
            found.push((amount.line, Issue::IgnoredField { path, what }));
        }
    }
}

/// Thousandths of a byte are nearly always a typo: `100m` for `100Mi`.
fn note_fractions(part: &Node<'_>, path: &str, found: &mut Vec<(u32, Issue)>) {
    let Some(resources) = part.get("resources") else { return };
    for list in ["limits", "requests"] {
        let Some(memory) = resources.get(list).and_then(|list| list.get("memory")) else { continue };
        note_fraction(memory, || format!("{path}.resources.{list}[memory]"), found);
    }
}

fn note_fraction(bytes: &Node<'_>, path: impl Fn() -> String, found: &mut Vec<(u32, Issue)>) {
    let is_fraction = match &bytes.value {
        Value::Float(amount) => amount.fract() != 0.0,
        Value::Text(text) => text.parse().is_ok_and(|amount: Quantity| !amount.is_whole()),
        _ => false,
    };
    if is_fraction {
        let what = "rounded up to whole bytes: the suffix m means thousandths; M and Mi mean millions";
        found.push((bytes.line, Issue::FieldInVain { path: path(), what }));
    }
}

/// The API server refuses this, but only if the capability is called `CAP_SYS_ADMIN`.
fn note_admin(container: &Node<'_>, path: &str, found: &mut Vec<(u32, Issue)>) {
    let context = container.get("securityContext");
    let denied = context.and_then(|context| context.get("allowPrivilegeEscalation"));
    let denied = denied.filter(|denied| denied.value == Value::Bool(false));
    let added = context.and_then(|context| context.get("capabilities")).and_then(|sets| sets.get("add"));
    let is_added = items(added).iter().any(|capability| capability.text() == Some("SYS_ADMIN"));
    if let Some(denied) = denied.filter(|_| is_added) {
        let path = format!("{path}.securityContext.allowPrivilegeEscalation");
        let what = "has no effect: the container has SYS_ADMIN anyway (spelled CAP_SYS_ADMIN, the combination is \
                    refused)";
        found.push((denied.line, Issue::FieldInVain { path, what }));
    }
}

/// As under a kubelet, only the ports of containers off the host network are mapped; those of sidecars are not.
fn note_host_ports(spec: &Node<'_>, found: &mut Vec<(u32, Issue)>) {
    if spec.get("hostNetwork").is_some_and(|given| given.value == Value::Bool(true)) {
        return;
    }
    for (index, container) in items(spec.get("initContainers")).iter().enumerate() {
        for (number, port) in items(container.get("ports")).iter().enumerate() {
            let given = port.get("hostPort");
            if let Some(port) = given.filter(|port| !matches!(port.value, Value::Null | Value::Signed(0))) {
                let path = format!("spec.initContainers[{index}].ports[{number}].hostPort");
                let what = "hostPort of an init container is reserved but not mapped; set it on a regular container \
                            (they share the pod's network)";
                found.push((port.line, Issue::FieldInVain { path, what }));
            }
        }
    }
}

fn note_size_limit(volume: &Node<'_>, path: &str, found: &mut Vec<(u32, Issue)>) {
    let Some(folder) = volume.get("emptyDir") else { return };
    let in_memory = folder.get("medium").and_then(Node::text) == Some("Memory");
    let Some(limit) = folder.get("sizeLimit") else { return };
    let path = format!("{path}.emptyDir.sizeLimit");
    if in_memory {
        note_fraction(limit, || path.clone(), found);
    } else {
        let what = "the size is only limited with medium: Memory";
        found.push((limit.line, Issue::IgnoredField { path, what }));
    }
}

/// Whether the field asks for anything: nothing is lost if it asks for what happens anyway.
fn asks_for_something(name: &str, value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
        Value::Text(text) if name == "schedulerName" => text != "default-scheduler",
        Value::Text(text) if name == "priorityClassName" => text != NODE_CRITICAL,
        Value::Text(text) => !text.is_empty(),
        Value::Bool(true) | Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) => true,
    }
}

#[cfg(test)]
mod shapes;
#[cfg(test)]
mod spoilt;
#[cfg(test)]
mod tests;
