//! Addresses in a plugin's answer, in every version of its format.

use serde_json::Value;

/// The pod's addresses without their prefix lengths, in the order given.
pub(super) fn addresses(result: &Value) -> Vec<String> {
    let bare = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let mut found: Vec<String> = Vec::new();
    // 0.3.0 and later.
    for ip in result["ips"].as_array().into_iter().flatten() {
        found.extend(ip["address"].as_str().map(bare));
    }
    // Before that.
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
