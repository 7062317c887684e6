//! How much an image may ask for.

/// Limits for images from outside. The defaults let every honest image through and stop a bomb before it fills the
/// disk or the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one layer, decompressed.
    pub max_layer_bytes: u64,
    /// Bytes of an archive, if it is compressed as a whole, decompressed.
    pub max_archive_bytes: u64,
    /// Files, directories and links of one layer.
    pub max_entries: u64,
    /// Directories inside one another.
    pub max_depth: usize,
    /// Bytes that must stay free on the store's filesystem.
    pub min_free_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_layer_bytes: 64 << 30,
            max_archive_bytes: 256 << 30,
            max_entries: 4_000_000,
            max_depth: 256,
            min_free_bytes: 256 << 20,
        }
    }
}
