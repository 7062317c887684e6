//! The documents that describe what an image consists of: manifests and indexes, in the formats of OCI and docker.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::digest::Digest;
use super::name::ImageName;
use super::platform::Platform;

/// The annotation with which builders name images inside archives.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
const OCI_REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation that marks build attestations, which are listed as images for no platform at all.
const ATTESTATION: &str = "vnd.docker.reference.type";

/// A reference to a blob.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    #[serde(default)]
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// The manifest of one image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ImageManifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// A list of several images, or of variants of one image for several platforms.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ImageIndex {
    pub(crate) manifests: Vec<Descriptor>,
}

/// Either a manifest or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Image(ImageManifest),
    Index(ImageIndex),
}

/// An image in the older archive format, with paths instead of digests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DockerImage {
    pub(crate) config: String,
    pub(crate) repo_tags: Option<Vec<String>>,
    pub(crate) layers: Option<Vec<String>>,
}

/// The reason why a document is refused.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not the expected JSON.
    #[error("it is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// It is larger than any real manifest.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The largest size that is accepted.
        limit: usize,
    },
    /// It can be read both as an image and as an index, so that different readers would see different things.
    #[error("it is both an image and an index")]
    Ambiguous,
    /// It is in version 1 of docker's manifest format, which is obsolete.
    #[error("it has schema version 1, which is no longer supported: push the image again")]
    Schema1,
    /// It is something else that registries store, such as a chart or a signature.
    #[error("it is not a container image, but {0:?}")]
    NotAnImage(String),
}

impl Document {
    /// Parses a manifest or an index by its content, whatever media type it claims.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            schema_version: Option<u32>,
            manifests: Option<serde::de::IgnoredAny>,
            layers: Option<serde::de::IgnoredAny>,
            config: Option<serde::de::IgnoredAny>,
        }
        let shape: Shape = serde_json::from_slice(json)?;
        if shape.schema_version == Some(1) {
            return Err(ManifestError::Schema1);
        }
        match (shape.manifests.is_some(), shape.layers.is_some() || shape.config.is_some()) {
            (true, true) => Err(ManifestError::Ambiguous),
            (true, false) => Ok(Self::Index(serde_json::from_slice(json)?)),
            (false, _) => {
                let manifest: ImageManifest = serde_json::from_slice(json)?;
                let kind = manifest.config.media_type.as_str();
                if kind.is_empty() || kind.contains("container.image") || kind.contains("oci.image.config") {
                    Ok(Self::Image(manifest))
                } else {
                    Err(ManifestError::NotAnImage(kind.to_owned()))
                }
            }
        }
    }
}

impl Descriptor {
    /// The name that an archive gives to what this refers to. A bare tag is not a name.
    pub(crate) fn name(&self) -> Option<ImageName> {
        let annotation = |key: &str| self.annotations.as_ref()?.get(key);
        let text = annotation(CONTAINERD_NAME)
            .or_else(|| annotation(OCI_REF_NAME).filter(|text| text.contains([':', '/'])))?;
        text.parse().ok()
    }

    pub(crate) fn is_attestation(&self) -> bool {
        self.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(ATTESTATION))
            || self.platform.as_ref().is_some_and(|platform| platform.os == "unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn parse(json: &str) -> Result<Document, ManifestError> {
        Document::parse(json.replace("$D", D).as_bytes())
    }

    #[test]
    fn documents_are_known_by_what_they_contain() {
        let image = r#"{"schemaVersion":2,"config":{"digest":"$D","size":2},"layers":[{"digest":"$D"}]}"#;
        assert!(matches!(parse(image), Ok(Document::Image(image)) if image.layers.len() == 1));
        let index =
            r#"{"manifests":[{"digest":"$D","size":1,"platform":{"os":"linux","architecture":"arm"}}]}"#;
        assert!(matches!(parse(index), Ok(Document::Index(index)) if index.manifests[0].platform.is_some()));
        let both = r#"{"config":{"digest":"$D"},"layers":[],"manifests":[]}"#;
        assert!(matches!(parse(both), Err(ManifestError::Ambiguous)));
        let old = r#"{"schemaVersion":1,"fsLayers":[]}"#;
        assert!(matches!(parse(old), Err(ManifestError::Schema1)));
        let chart = r#"{"config":{"digest":"$D","mediaType":"application/vnd.cncf.helm.config.v1+json"},"layers":[]}"#;
        assert!(matches!(parse(chart), Err(ManifestError::NotAnImage(_))));
        for json in
            ["", "[]", "null", "{}", r#"{"manifests":[{"digest":"sha256:../x"}]}"#, r#"{"layers":[]}"#]
        {
            assert!(parse(json).is_err(), "{json}");
        }
    }

    #[test]
    fn names_come_from_annotations() {
        for (annotations, name) in [
            (r#"{"io.containerd.image.name":"docker.io/library/a:1"}"#, Some("docker.io/library/a:1")),
            (r#"{"org.opencontainers.image.ref.name":"localhost/a:1"}"#, Some("localhost/a:1")),
            (r#"{"org.opencontainers.image.ref.name":"1.0"}"#, None),
            (r#"{"org.opencontainers.image.ref.name":"A:/"}"#, None),
            ("null", None),
        ] {
            let json = format!(r#"{{"digest":"{D}","annotations":{annotations}}}"#);
            let descriptor: Descriptor = serde_json::from_str(&json).unwrap();
            assert_eq!(descriptor.name().map(|name| name.to_string()).as_deref(), name, "{annotations}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[\\[\\]{}\":,a-z0-9 ]{0,200}", bytes in "\\PC{0,100}") {
            let _ = Document::parse(text.as_bytes());
            let _ = Document::parse(bytes.as_bytes());
            let _ = serde_json::from_str::<Vec<DockerImage>>(&text);
            let _ = super::super::config::ConfigBlob::parse(bytes.as_bytes());
        }
    }
}
