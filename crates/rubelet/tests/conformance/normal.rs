//! A status without what differs from run to run: `<time>`, `<id>` of a container, `<image>`, `<uid>` of the pod, `<ip>` of the
//! pod and `<node>` for the address of the node. What is empty is as good as not there, and so are groups that the image gives.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The status of a pod, with placeholders.
pub(crate) fn status(pod: &Value, node: &str) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let facts = Facts {
        uid: text(&pod["metadata"]["uid"]),
        node: node.to_owned(),
        host_ip: text(&pod["status"]["hostIP"]),
    };
    facts.of("", &pod["status"])
}

struct Facts {
    uid: String,
    node: String,
    host_ip: String,
}

impl Facts {
    fn of(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(key, text)),
            Value::Array(items) if key == "supplementalGroups" => groups(items),
            Value::Array(items) => items.iter().map(|item| self.of(key, item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), self.of(key, value)));
                let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
                Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
            }
            other => other.clone(),
        }
    }

    fn text(&self, key: &str, text: &str) -> String {
        let is_time = key.ends_with("At") || key.ends_with("Time");
        match key {
            "image" | "imageID" if !text.is_empty() => "<image>".to_owned(),
            "containerID" => match text.split_once("://") {
                Some((_, id)) if id.len() == 64 => "<id>".to_owned(),
                _ => format!("not an id: {text}"),
            },
            "hostIP" | "podIP" | "ip" if text == self.host_ip => "<node>".to_owned(),
            "podIP" | "ip" => "<ip>".to_owned(),
            _ if is_time && text.parse::<jiff::Timestamp>().is_ok() => "<time>".to_owned(),
            _ => text.replace(&self.uid, "<uid>").replace(&format!("-{}_", self.node), "-<node>_"),
        }
    }
}

/// Groups in order, without those that only the image gives: they are in its `/etc/group`, and the images differ.
fn groups(all: &[Value]) -> Value {
    let of_image = |group: &u64| (1..1000).contains(group);
    let mut groups: Vec<u64> =
        all.iter().filter_map(Value::as_u64).filter(|group| !of_image(group)).collect();
    groups.sort_unstable();
    groups.into()
}

/// Two statuses, line by line: `-` is missing, `+` is too much.
pub(crate) fn difference(expected: &Value, found: &Value) -> String {
    let lines = |value: &Value| {
        let mut lines = Vec::new();
        flatten("", value, &mut lines);
        lines
    };
    let (expected, found) = (lines(expected), lines(found));
    let mut text = String::new();
    for line in expected.iter().filter(|line| !found.contains(line)) {
        let _ = writeln!(text, "- {line}");
    }
    for line in found.iter().filter(|line| !expected.contains(line)) {
        let _ = writeln!(text, "+ {line}");
    }
    text
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, lines));
        }
        Value::Array(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| flatten(&format!("{path}[{index}]"), value, lines));
        }
        value => lines.push(format!("{path}: {value}")),
    }
}
