//! Limits on what an image may use.

/// Limits for images from outside. The defaults allow every honest image, and stop a decompression bomb before it fills
/// the disk or the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of one layer in bytes, decompressed.
    pub max_layer_bytes: u64,
    /// The maximum size in bytes of an archive that is compressed as a whole, decompressed.
    pub max_archive_bytes: u64,
    /// The maximum number of files, directories and links in one layer.
    pub max_entries: u64,
    /// The maximum nesting of directories.
    pub max_depth: usize,
    /// The number of bytes that must stay free on the store's filesystem.
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
