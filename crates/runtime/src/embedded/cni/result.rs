//! The addresses in a plugin's result, in every version of the format.

use serde_json::Value;

/// Returns the pod's addresses in the given order, without their prefix lengths.
pub(super) fn addresses(result: &Value) -> Vec<String> {
    let bare = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let mut found: Vec<String> = Vec::new();
    // Since 0.3.0.
    for ip in result["ips"].as_array().into_iter().flatten() {
        found.extend(ip["address"].as_str().map(bare));
    }
    // Before 0.3.0.
    for family in ["ip4", "ip6"] {
        found.extend(result[family]["ip"].as_str().map(bare));
    }
    found.retain(|ip| !ip.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_and_new_answers() {
        let new = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "10.1.2.3/24" }, { "address": "fd00::2/64" }] });
        assert_eq!(addresses(&new), ["10.1.2.3", "fd00::2"]);
        let old = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "10.1.2.3/24" } });
        assert_eq!(addresses(&old), ["10.1.2.3"]);
        assert!(addresses(&Value::Null).is_empty());
    }
}
