//! Network configurations: one plugin (`.conf`) or a chain of them (`.conflist`).

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedded::error::{Error, Result};
use crate::embedded::store;

/// A network: plugins that run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkList {
    pub(crate) name: String,
    #[serde(default = "oldest")]
    pub(crate) cni_version: String,
    pub(crate) plugins: Vec<Value>,
}

fn oldest() -> String {
    "0.1.0".to_owned()
}

/// Loads the first configuration of a folder, by file name. If it cannot be used, the error names the file.
pub(super) fn load(folder: &Path) -> Result<NetworkList> {
    let mut names = store::entries(folder)?;
    names.retain(|name| [".conflist", ".conf", ".json"].iter().any(|ending| name.ends_with(ending)));
    names.sort();
    let Some(name) = names.first() else {
        return Err(Error::Network(format!("no CNI configuration in {}", folder.display())));
    };
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
    parse(&text).map_err(|problem| Error::Network(format!("{}: {problem}", path.display())))
}

pub(super) fn parse(text: &str) -> Result<NetworkList, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let list = if value.get("plugins").is_some() {
        serde_json::from_value(value).map_err(|error| error.to_string())?
    } else {
        NetworkList {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            cni_version: value["cniVersion"].as_str().map_or_else(oldest, str::to_owned),
            plugins: vec![value],
        }
    };
    if list.name.is_empty() {
        return Err("the network has no name".to_owned());
    }
    if list.plugins.is_empty() {
        return Err("the network has no plugins".to_owned());
    }
    for plugin in &list.plugins {
        match plugin["type"].as_str() {
            Some(kind) if !kind.is_empty() && !kind.contains('/') => {}
            _ => return Err("a plugin has no type".to_owned()),
        }
    }
    Ok(list)
}

pub(super) fn has_capability(plugin: &Value, name: &str) -> bool {
    plugin["capabilities"][name].as_bool().unwrap_or(false)
}

impl NetworkList {
    /// Returns a plugin's input: its own part, the network's name and version, and the result of the plugins before it.
    pub(super) fn input(&self, plugin: &Value, previous: Option<&Value>, ports: &Value) -> Value {
        let mut input = plugin.clone();
        if let Some(object) = input.as_object_mut() {
            object.remove("capabilities");
            object.insert("name".to_owned(), json!(self.name));
            object.insert("cniVersion".to_owned(), json!(self.cni_version));
            if let Some(previous) = previous {
                object.insert("prevResult".to_owned(), previous.clone());
            }
            if has_capability(plugin, "portMappings") && ports.as_array().is_some_and(|list| !list.is_empty())
            {
                object.insert("runtimeConfig".to_owned(), json!({ "portMappings": ports }));
            }
        }
        input
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_single_plugin() {
        let list =
            parse(r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"},{"type":"portmap"}]}"#)
                .unwrap();
        assert_eq!((list.plugins.len(), list.cni_version.as_str()), (2, "1.0.0"));
        let one = parse(r#"{"name":"n","type":"loopback"}"#).unwrap();
        assert_eq!((one.plugins.len(), one.cni_version.as_str()), (1, "0.1.0"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"name":"n"}"#,
            r#"{"name":"n","plugins":[]}"#,
            r#"{"name":"n","type":"../x"}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plugin_reads_its_part_the_name_and_what_came_before() {
        let list = parse(
            r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"portmap","capabilities":{"portMappings":true}}]}"#,
        )
        .unwrap();
        let ports = json!([{ "hostPort": 80 }]);
        let input = list.input(&list.plugins[0], Some(&json!({ "ips": [] })), &ports);
        assert_eq!(
            input,
            json!({
                "type": "portmap", "name": "n", "cniVersion": "1.0.0",
                "prevResult": { "ips": [] }, "runtimeConfig": { "portMappings": [{ "hostPort": 80 }] },
            })
        );
        let quiet = list.input(&list.plugins[0], None, &json!([]));
        assert!(quiet.get("runtimeConfig").is_none() && quiet.get("prevResult").is_none());
    }
}
