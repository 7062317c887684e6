//! Statuses without what differs from run to run, which is kept as little as possible:
//!
//! | placeholder | for |
//! |---|---|
//! | `<time>` | a point in time |
//! | `<id>` | an id of a container, after the name of a runtime |
//! | `<image>` | the image that the container was to run |
//! | `<image id>` | a digest |
//! | `<uid>` | the UID of the pod, wherever it occurs |
//! | `<ip>` | an address in the network of the pods |
//! | `<node>` | an address of the node; in texts, its name after the pod's |
//!
//! If the value of such a field is of another kind, it stays, and so is a difference. Null and empty values count as
//! absent. Groups are sorted; if the image is the machine itself, the groups that only the image defines are left out.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::{Map, Value};

/// The image that is the machine itself.
pub(crate) const HOST_IMAGE: &str = "host";

/// Where the pods ran.
pub(crate) struct Ground<'a> {
    /// The name of the node.
    pub(crate) node: &'a str,
    /// The image that the manifests call `busybox`.
    pub(crate) image: &'a str,
    /// The prefix of pod addresses.
    pub(crate) network: &'a str,
    /// Whether an address is the node's.
    pub(crate) is_host: fn(IpAddr) -> bool,
}

impl Ground<'_> {
    /// Returns the status of a pod, with placeholders.
    pub(crate) fn status(&self, pod: &Value) -> Value {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or("a pod without a UID");
        self.of(uid, "", &pod["status"])
    }

    fn of(&self, uid: &str, key: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(uid, key, text)),
            Value::Array(items) if key == "supplementalGroups" => self.groups(items),
            Value::Array(items) => items.iter().map(|item| self.of(uid, key, item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), self.of(uid, key, value)));
                let is_empty =
                    |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
                Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
            }
            other => other.clone(),
        }
    }

    fn text(&self, uid: &str, key: &str, text: &str) -> String {
        let placeholder = match key {
            "image" => (text == self.image).then_some("<image>"),
            "imageID" => is_digest(text).then_some("<image id>"),
            "containerID" => is_container(text).then_some("<id>"),
            "hostIP" | "podIP" | "ip" => self.address(text),
            _ if key.ends_with("At") || key.ends_with("Time") => {
                text.parse::<jiff::Timestamp>().is_ok().then_some("<time>")
            }
            _ => None,
        };
        placeholder.map_or_else(
            || text.replace(uid, "<uid>").replace(&format!("-{}_", self.node), "-<node>_"),
            str::to_owned,
        )
    }

    /// Groups from the machine's own `/etc/group` do not come from the pod.
    fn groups(&self, all: &[Value]) -> Value {
        let of_image = |group: &u64| self.image == HOST_IMAGE && (1..1000).contains(group);
        let mut groups: Vec<u64> =
            all.iter().filter_map(Value::as_u64).filter(|group| !of_image(group)).collect();
        groups.sort_unstable();
        groups.into()
    }

    fn address(&self, text: &str) -> Option<&'static str> {
        let address: IpAddr = text.parse().ok()?;
        if (self.is_host)(address) {
            Some("<node>")
        } else {
            text.starts_with(self.network).then_some("<ip>")
        }
    }
}

fn is_digest(text: &str) -> bool {
    let digest = text.rsplit('@').next().and_then(|last| last.strip_prefix("sha256:"));
    digest.is_some_and(is_hexadecimal)
}

fn is_container(text: &str) -> bool {
    text.split_once("://").is_some_and(|(runtime, id)| !runtime.is_empty() && is_hexadecimal(id))
}

fn is_hexadecimal(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Compares two statuses line by line: `-` is missing, `+` is extra.
pub(crate) fn difference(expected: &Value, found: &Value) -> String {
    let (expected, found) = (lines(expected), lines(found));
    let mut text = String::new();
    for (path, value) in expected.iter().filter(|line| !found.contains(line)) {
        let _ = writeln!(text, "- {path}: {value}");
    }
    for (path, value) in found.iter().filter(|line| !expected.contains(line)) {
        let _ = writeln!(text, "+ {path}: {value}");
    }
    text
}

/// Returns every field with its path, such as `.containerStatuses[0].ready`.
pub(crate) fn lines(status: &Value) -> Vec<(String, &Value)> {
    let mut lines = Vec::new();
    flatten("", status, &mut lines);
    lines
}

fn flatten<'a>(path: &str, value: &'a Value, lines: &mut Vec<(String, &'a Value)>) {
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
        value => lines.push((path.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Ground;

    #[test]
    fn only_values_of_the_right_kind_have_placeholders() {
        let ground = Ground {
            node: "n",
            image: "busybox",
            network: "10.213.7.",
            is_host: |address| address.to_string() == "192.0.2.1",
        };
        let id = "0123456789abcdef".repeat(4);
        let kinds = [
            ("image", "busybox".to_owned(), "<image>"),
            ("imageID", format!("sha256:{id}"), "<image id>"),
            ("imageID", format!("localhost/busybox@sha256:{id}"), "<image id>"),
            ("containerID", format!("containerd://{id}"), "<id>"),
            ("hostIP", "192.0.2.1".to_owned(), "<node>"),
            ("podIP", "10.213.7.9".to_owned(), "<ip>"),
            ("startedAt", "2026-01-02T03:04:05Z".to_owned(), "<time>"),
            ("message", "pod web-n_default(u-1)".to_owned(), "pod web-<node>_default(<uid>)"),
        ];
        let status = |key: &str, text: &str| {
            ground.status(&json!({ "metadata": { "uid": "u-1" }, "status": { key: text } }))[key].clone()
        };
        for (key, text, expected) in kinds {
            assert_eq!(status(key, &text), expected);
        }
        for (key, text) in [
            ("image", "other"),
            ("imageID", "sha256:12"),
            ("imageID", "busybox"),
            ("containerID", &id),
            ("containerID", "containerd://12"),
            ("podIP", "10.213.70.9"),
            ("podIP", "10.213.7.x"),
            ("startedAt", "now"),
        ] {
            assert_eq!(status(key, text), text);
        }
    }
}
