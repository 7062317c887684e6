//! What the store knows about one image.

use serde::{Deserialize, Serialize};

use super::config::ImageConfig;
use super::digest::Digest;

/// An image in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The digest of its configuration.
    pub id: Digest,
    /// Its tags in full form, sorted: `docker.io/library/busybox:latest`.
    pub repo_tags: Vec<String>,
    /// The digests of its manifests by repository, sorted: `docker.io/library/busybox@sha256:…`.
    pub repo_digests: Vec<String>,
    /// The size of its unpacked layers in bytes.
    pub size: u64,
    /// How to run it.
    pub config: ImageConfig,
    /// What its root filesystem is made from.
    pub content: Content,
}

/// What a root filesystem is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Layers by diff id, lowest first. A layer may occur twice.
    Layers(Vec<Digest>),
    /// The host's own root: a recipe, with nothing to store.
    Host,
}

impl Image {
    /// The layers' diff ids, lowest first; none for the built-in image.
    #[must_use]
    pub fn layers(&self) -> &[Digest] {
        match &self.content {
            Content::Layers(layers) => layers,
            Content::Host => &[],
        }
    }

    /// Returns whether the image is part of the program: always there, never removed.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        matches!(self.content, Content::Host)
    }

    /// The name to show to users: the first tag, else the first digest, else the id.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.repo_tags.first().or(self.repo_digests.first()).map_or_else(|| self.id.as_str(), String::as_str)
    }

    /// The id in the short form that people read and type.
    #[must_use]
    pub fn short_id(&self) -> &str {
        &self.id.hex()[..12]
    }
}
