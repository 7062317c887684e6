//! Image names as users write them, and their meaning.
//!
//! The rules are docker's: `busybox` is `docker.io/library/busybox:latest`, and the first part is a registry only if it
//! has a dot, a port or capitals, or is `localhost`.

use std::fmt;
use std::str::FromStr;

use super::digest::{Digest, DigestError, is_lower_hex};

const DEFAULT_REGISTRY: &str = "docker.io";
const LEGACY_REGISTRY: &str = "index.docker.io";
const OFFICIAL_PREFIX: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;
/// A shorter prefix of an id is more likely to be a typo than intended.
const MIN_ID_PREFIX: usize = 4;

/// A full image name: registry, repository, and a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageName {
    registry: String,
    repository: String,
    version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Version {
    Tag(String),
    Digest(Digest),
}

/// What a text can select in a store; see [`Selector::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A full digest: an image's id, or the digest of a manifest.
    Digest(Digest),
    /// The beginning of an id, after `sha256:`.
    IdPrefix(String),
    /// A name.
    Name(ImageName),
    /// A name that could also be the beginning of an id; the name takes precedence.
    NameOrIdPrefix(ImageName, String),
}

/// The reason why a text is not an image name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("the image name is empty")]
    Empty,
    /// The registry part is not a host with an optional port.
    #[error("image name {name:?}: {registry:?} is not a registry host")]
    Registry {
        /// What was written.
        name: String,
        /// The part in question.
        registry: String,
    },
    /// The repository contains capitals.
    #[error("image name {name:?}: the repository must be lower case")]
    UpperCase {
        /// What was written.
        name: String,
    },
    /// The repository contains characters or separators that are not allowed.
    #[error("image name {name:?}: {repository:?} is not a repository path")]
    Repository {
        /// What was written.
        name: String,
        /// The part in question.
        repository: String,
    },
    /// The repository is longer than 255 characters.
    #[error("image name {name:?} is longer than 255 characters")]
    TooLong {
        /// What was written.
        name: String,
    },
    /// The tag has characters that are not allowed, or more than 128.
    #[error("image name {name:?}: {tag:?} is not a tag")]
    Tag {
        /// What was written.
        name: String,
        /// The part in question.
        tag: String,
    },
    /// The part after `@` is not a digest.
    #[error("image name {name:?}: {source}")]
    Digest {
        /// What was written.
        name: String,
        /// What is wrong with it.
        source: DigestError,
    },
    /// The name is 64 hexadecimal digits, which would be an id.
    #[error("{0:?} is an image ID, not a name")]
    LooksLikeId(String),
}

// === impl ImageName ===

impl ImageName {
    /// The registry's host, with the port if one was given: `docker.io`, `localhost:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry: `library/busybox`.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, unless the name is by digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// The digest, if the name has one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Tag(_) => None,
            Version::Digest(digest) => Some(digest),
        }
    }

    /// Returns the name of the same repository at this digest.
    #[must_use]
    pub fn at_digest(&self, digest: Digest) -> Self {
        Self { version: Version::Digest(digest), ..self.clone() }
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() == 64 && name.bytes().all(is_lower_hex) {
            return Err(NameError::LooksLikeId(name.to_owned()));
        }
        let (rest, digest) = match name.split_once('@') {
            Some((rest, digest)) => {
                let digest =
                    digest.parse().map_err(|source| NameError::Digest { name: name.to_owned(), source })?;
                (rest, Some(digest))
            }
            None => (name, None),
        };
        // A colon after the last slash starts a tag; one before it starts a port.
        let last_part = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (path, tag) = match rest[last_part..].find(':') {
            Some(colon) => (&rest[..last_part + colon], Some(&rest[last_part + colon + 1..])),
            None => (rest, None),
        };
        if let Some(tag) = tag
            && !is_tag(tag)
        {
            return Err(NameError::Tag { name: name.to_owned(), tag: tag.to_owned() });
        }
        let (registry, repository) = split_registry(path);
        if !is_registry(registry) {
            return Err(NameError::Registry { name: name.to_owned(), registry: registry.to_owned() });
        }
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(NameError::UpperCase { name: name.to_owned() });
        }
        if !repository.split('/').all(is_path_part) {
            return Err(NameError::Repository { name: name.to_owned(), repository: repository.to_owned() });
        }
        let registry = if registry == LEGACY_REGISTRY { DEFAULT_REGISTRY } else { registry };
        let repository = if registry == DEFAULT_REGISTRY && !repository.contains('/') {
            format!("{OFFICIAL_PREFIX}{repository}")
        } else {
            repository.to_owned()
        };
        if registry.len() + 1 + repository.len() > MAX_REPOSITORY {
            return Err(NameError::TooLong { name: name.to_owned() });
        }
        // If there are both, the digest decides; the tag is only a note for people.
        let version = match digest {
            Some(digest) => Version::Digest(digest),
            None => Version::Tag(tag.unwrap_or(DEFAULT_TAG).to_owned()),
        };
        Ok(Self { registry: registry.to_owned(), repository, version })
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match &self.version {
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

fn split_registry(path: &str) -> (&str, &str) {
    match path.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (first, rest)
        }
        _ => (DEFAULT_REGISTRY, path),
    }
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((host, rest)) => {
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return false;
                }
                match rest.strip_prefix(':') {
                    Some(port) => ("", Some(port)),
                    None if rest.is_empty() => ("", None),
                    None => return false,
                }
            }
            None => return false,
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    let port_ok = port.is_none_or(|port| !port.starts_with('+') && port.parse::<u16>().is_ok());
    let host_ok = registry.starts_with('[')
        || host.split('.').all(|label| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        });
    port_ok && host_ok
}

/// Returns whether this is lower-case words joined by `.`, `_`, `__` or any number of `-`.
fn is_path_part(part: &str) -> bool {
    let bytes = part.as_bytes();
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    if !word(first) || !word(last) {
        return false;
    }
    let mut at = 0;
    while at < bytes.len() {
        if word(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && !word(bytes[at]) {
            at += 1;
        }
        let separator = &bytes[start..at];
        let dashes = separator.iter().all(|&byte| byte == b'-');
        if !dashes && !matches!(separator, b"." | b"_" | b"__") {
            return false;
        }
    }
    true
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

// === impl Selector ===

impl Selector {
    /// Parses what a user may write to refer to an image: a name, a digest, an id, or the beginning of one.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if let Ok(digest) = text.parse() {
            return Ok(Self::Digest(digest));
        }
        if let Some(prefix) = text.strip_prefix("sha256:") {
            return if is_id_prefix(prefix) {
                Ok(Self::IdPrefix(prefix.to_owned()))
            } else {
                text.parse().map(Self::Name)
            };
        }
        if let Ok(id) = Digest::from_hex(text) {
            return Ok(Self::Digest(id));
        }
        let name = text.parse()?;
        Ok(if is_id_prefix(text) { Self::NameOrIdPrefix(name, text.to_owned()) } else { Self::Name(name) })
    }
}

fn is_id_prefix(text: &str) -> bool {
    (MIN_ID_PREFIX..64).contains(&text.len()) && text.bytes().all(is_lower_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn names_are_normalised_as_docker_does() {
        let by_digest = format!("busybox@sha256:{HEX}");
        let both = format!("busybox:1.36@sha256:{HEX}");
        let digest_form = format!("docker.io/library/busybox@sha256:{HEX}");
        for (written, meant) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
            ("prom/node-exporter:v1", "docker.io/prom/node-exporter:v1"),
            ("localhost/pause:1", "localhost/pause:1"),
            ("localhost:5000/a/b/c", "localhost:5000/a/b/c:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("127.0.0.1:5000/x", "127.0.0.1:5000/x:latest"),
            ("[::1]:5000/x:y", "[::1]:5000/x:y"),
            ("MyHost/x", "MyHost/x:latest"),
            ("a/b_c/d__e/f---g.h", "docker.io/a/b_c/d__e/f---g.h:latest"),
            (&by_digest, &digest_form),
            (&both, &digest_form),
        ] {
            let name: ImageName = written.parse().unwrap();
            assert_eq!(name.to_string(), meant, "{written}");
            assert_eq!(name.to_string().parse::<ImageName>().unwrap(), name, "normal form is stable");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("x/{}", "a".repeat(300));
        let tag = format!("x:{}", "a".repeat(129));
        for text in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "a:b:c",
            "a@b",
            "a b",
            "../x",
            "./x",
            "a/../b",
            "Busybox",
            "a_-b",
            ":x",
            "a:",
            "a:-x",
            "a:x/",
            "-a/b.c",
            "http://x/y",
            "x.y:99999/z",
            "x.y:/z",
            "[::1/x",
            "[zz]:5/x",
            "a\0b",
            "sha256:xyz/",
            HEX,
            &long,
            &tag,
        ] {
            assert!(text.parse::<ImageName>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn selectors_tell_names_from_ids() {
        let id: Digest = format!("sha256:{HEX}").parse().unwrap();
        assert_eq!(Selector::parse(HEX), Ok(Selector::Digest(id.clone())));
        assert_eq!(Selector::parse(id.as_str()), Ok(Selector::Digest(id)));
        assert_eq!(Selector::parse("sha256:e3b0"), Ok(Selector::IdPrefix("e3b0".into())));
        assert!(matches!(Selector::parse("cafe").unwrap(), Selector::NameOrIdPrefix(_, p) if p == "cafe"));
        assert!(matches!(Selector::parse("abc").unwrap(), Selector::Name(_)));
        assert!(matches!(Selector::parse("busybox").unwrap(), Selector::Name(_)));
        assert!(Selector::parse("").is_err());
    }
}
