//! What a kubelet reported about the pod of one manifest, as stored beside the manifest.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::image::hex;

/// Stored instead of the address of the machine on which it was recorded; no machine has this one.
pub const HOST_ADDRESS: &str = "192.0.2.1";

/// Returns the text of a recording: the pod's identity, and its status as the kubelet reported it, except for the
/// machine's address.
pub fn write(kubelet: &str, manifest: &str, pod: &Value) -> String {
    let host = pod["status"]["hostIP"].as_str().filter(|host| !host.is_empty());
    let mut status = pod["status"].clone();
    if let Some(host) = host {
        replace(&mut status, host);
    }
    let metadata = &pod["metadata"];
    let recording = json!({
        "kubelet": kubelet,
        "manifest": fingerprint(manifest),
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "status": status,
    });
    format!("{recording:#}\n")
}

/// Returns a fingerprint that shows whether a recording belongs to this manifest.
pub fn fingerprint(manifest: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(manifest)))
}

fn replace(value: &mut Value, host: &str) {
    match value {
        Value::String(text) if text == host => HOST_ADDRESS.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, host)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, host)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{fingerprint, write};

    #[test]
    fn the_address_of_the_machine_is_not_kept() {
        let pod = json!({
            "metadata": { "name": "web-n", "namespace": "default", "uid": "1", "annotations": { "a": "b" } },
            "spec": {},
            "status": { "hostIP": "198.51.100.7", "hostIPs": [{ "ip": "198.51.100.7" }], "podIP": "10.213.0.2" },
        });
        let text = write("1.36.4", "kind: Pod", &pod);
        let kept: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(kept["metadata"], json!({ "name": "web-n", "namespace": "default", "uid": "1" }));
        let status =
            json!({ "hostIP": "192.0.2.1", "hostIPs": [{ "ip": "192.0.2.1" }], "podIP": "10.213.0.2" });
        assert_eq!(kept["status"], status);
        assert_eq!(kept["manifest"], fingerprint("kind: Pod"));
    }
}
