//! Leases: records on disk of who uses which image, so that a layer in use outlives its image and every restart.

use serde::{Deserialize, Serialize};

use super::digest::Digest;

const MAX_KEY: usize = 128;

/// A guarantee that an image's layers stay while the holder exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The holder: a container's id.
    pub key: String,
    /// The image it was taken for, which may have been removed since.
    pub image: Digest,
    /// The layers it keeps.
    pub layers: Vec<Digest>,
}

/// Returns whether this text can be a key, which becomes a file name.
pub(crate) fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key.len() <= MAX_KEY
        && !key.starts_with('.')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::is_key;

    #[test]
    fn keys_are_plain_file_names() {
        for key in ["a", "0f3e", "pod_x-1.2"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", ".", "..", ".x", "a/b", "a b", "a\0", "ä", &"x".repeat(129)] {
            assert!(!is_key(key), "{key:?}");
        }
    }
}
