//! The hash of a container's definition, as the kubelet computes it: over name and image only.
//!
//! Every container has it as an annotation. A running container whose hash differs from that of the definition is
//! replaced; a container that a kubelet made is recognised by it.

use k8s_openapi::api::core::v1::Container;

const OFFSET: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// The hash of a container.
pub(crate) fn container_hash(container: &Container) -> u32 {
    let mut json = String::from("{\"image\":");
    push_json(&mut json, container.image.as_deref().unwrap_or_default());
    json.push_str(",\"name\":");
    push_json(&mut json, &container.name);
    json.push('}');
    // The kubelet hashes a dump of the bytes, not the bytes.
    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    fnv1a(format!("([]uint8)[{}]", bytes.join(" ")).as_bytes())
}

/// Formats a hash as in the annotation of a container.
pub(crate) fn hex(hash: u32) -> String {
    format!("{hash:x}")
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME))
}

/// Appends a JSON string with the escapes of Go's encoder, which also escapes what HTML would take for markup.
fn push_json(json: &mut String, text: &str) {
    let quoted = serde_json::Value::from(text).to_string();
    for character in quoted.chars() {
        match character {
            '<' => json.push_str("\\u003c"),
            '>' => json.push_str("\\u003e"),
            '&' => json.push_str("\\u0026"),
            '\u{2028}' => json.push_str("\\u2028"),
            '\u{2029}' => json.push_str("\\u2029"),
            other => json.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str, image: &str) -> String {
        hex(container_hash(&Container {
            name: name.to_owned(),
            image: Some(image.to_owned()),
            ..Container::default()
        }))
    }

    #[test]
    fn hashes_are_those_of_the_kubelet() {
        let vectors = [
            ("test_container", "foo/image:v1", "8e45cbd0"),
            ("nginx", "nginx:1.25", "5d0e8bc9"),
            ("c", "registry.k8s.io/pause:3.10", "c66cfb5f"),
        ];
        for (name, image, wanted) in vectors {
            assert_eq!(hash(name, image), wanted, "{name} {image}");
        }
    }

    #[test]
    fn markup_is_escaped_as_go_does() {
        let mut json = String::new();
        push_json(&mut json, "a<b>&\"\u{2028}");
        assert_eq!(json, "\"a\\u003cb\\u003e\\u0026\\\"\\u2028\"");
    }
}
