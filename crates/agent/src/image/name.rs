//! Image names, as they appear in manifests.

/// Why a text is not an image name, in the kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidName {
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Capitals(String),
    #[error("invalid reference format")]
    Format,
}

/// Returns the name with its implied tag: a name without tag and digest means `:latest`.
pub(crate) fn full_name(image: &str) -> Result<String, InvalidName> {
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(InvalidName::Identifier(image.to_owned()));
    }
    let path = path(image);
    if path != path.to_lowercase() {
        return Err(InvalidName::Capitals(path));
    }
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash is a port.
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    let is_valid = is_repository(repository) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    if !is_valid {
        return Err(InvalidName::Format);
    }
    Ok(if tag.is_none() && digest.is_none() { format!("{image}:latest") } else { image.to_owned() })
}

const DEFAULT_REGISTRY: &str = "docker.io";

/// Splits a name into its registry, if it begins with one, and the rest. A path is in lower case, so capitals belong to
/// a host.
fn split_registry(name: &str) -> (Option<&str>, &str) {
    let is_host = |first: &str| {
        first.contains(['.', ':']) || first == "localhost" || first.contains(char::is_uppercase)
    };
    match name.split_once('/') {
        Some((first, rest)) if is_host(first) => (Some(first), rest),
        _ => (None, name),
    }
}

/// Returns what follows the registry, up to the first colon.
fn path(image: &str) -> String {
    let (registry, rest) = split_registry(image);
    let rest = rest.split(':').next().unwrap_or_default();
    if registry.is_none_or(|registry| registry == DEFAULT_REGISTRY) && !rest.contains('/') {
        format!("library/{rest}")
    } else {
        rest.to_owned()
    }
}

/// Returns the full registry and path of an image: `nginx:1.27` is in `docker.io/library/nginx`.
pub(super) fn repository(name: &str) -> String {
    let name = name.split('@').next().unwrap_or_default();
    let name = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    };
    match split_registry(name) {
        (Some(_), _) => name.to_owned(),
        (None, path) if path.contains('/') => format!("{DEFAULT_REGISTRY}/{path}"),
        (None, path) => format!("{DEFAULT_REGISTRY}/library/{path}"),
    }
}

fn is_repository(name: &str) -> bool {
    let (registry, path) = split_registry(name);
    name.len() <= 255 && registry.is_none_or(is_registry) && path.split('/').all(is_path_component)
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        // The colons of an IPv6 address are inside brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match address {
        Some(address) => !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit() || c == ':'),
        None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-')),
    };
    let is_port = |port: &str| !port.is_empty() && port.chars().all(|c| c.is_ascii_digit());
    is_host && port.is_none_or(is_port)
}

fn is_path_component(part: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && part.chars().all(|c| is_word(c) || matches!(c, '.' | '_' | '-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.starts_with(is_word) && tag.len() <= 128 && tag.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_a_registry_and_no_tag() {
        let digest = format!("r.io/a@sha256:{}", "a".repeat(64));
        let table = [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.27", "docker.io/library/nginx"),
            ("team/app:1", "docker.io/team/app"),
            ("docker.io/library/nginx:latest", "docker.io/library/nginx"),
            ("localhost/app", "localhost/app"),
            ("Host/app:1", "Host/app"),
            ("localhost:5000/a/b", "localhost:5000/a/b"),
            ("localhost:5000/a/b:c", "localhost:5000/a/b"),
            ("[fd00::1]:5000/app:1", "[fd00::1]:5000/app"),
            ("[fd00::1]/app", "[fd00::1]/app"),
            (digest.as_str(), "r.io/a"),
        ];
        for (image, wanted) in table {
            assert_eq!(repository(image), wanted, "{image}");
        }
    }

    #[test]
    fn names_get_the_tag_that_they_mean_and_what_is_none_is_refused() {
        let digest = format!("busybox@sha256:{}", "a".repeat(64));
        let table = [
            ("host", Some("host:latest")),
            ("busybox", Some("busybox:latest")),
            ("busybox:1.36", Some("busybox:1.36")),
            ("localhost:5000/a/b", Some("localhost:5000/a/b:latest")),
            ("localhost:5000/a/b:c", Some("localhost:5000/a/b:c")),
            ("registry.k8s.io/pause:3.10", Some("registry.k8s.io/pause:3.10")),
            ("[fd00::1]:5000/app:1", Some("[fd00::1]:5000/app:1")),
            ("[fd00::1]:5000/app", Some("[fd00::1]:5000/app:latest")),
            ("[FD00::1]/team/app", Some("[FD00::1]/team/app:latest")),
            (digest.as_str(), Some(digest.as_str())),
        ];
        for (image, wanted) in table {
            assert_eq!(full_name(image).ok().as_deref(), wanted, "{image:?}");
        }
        let identifier = "a".repeat(64);
        let capitals = |path: &str| InvalidName::Capitals(path.to_owned());
        let table = [
            ("", InvalidName::Format),
            ("a//b", InvalidName::Format),
            ("a:", InvalidName::Format),
            ("a b", InvalidName::Format),
            ("busybox:-x", InvalidName::Format),
            ("fd00::1/app:1", InvalidName::Format),
            ("[]:5000/app", InvalidName::Format),
            ("[fd00::1/app", InvalidName::Format),
            ("[fd00::1]5000/app", InvalidName::Format),
            ("[fd00::1]:/app", InvalidName::Format),
            ("[host]:5000/app", InvalidName::Format),
            ("busybox@sha256:zz", InvalidName::Format),
            ("BusyBox", capitals("library/BusyBox")),
            ("docker.io/BusyBox:1", capitals("library/BusyBox")),
            ("localhost/Capital:1", capitals("Capital")),
            ("team/App", capitals("team/App")),
            (identifier.as_str(), InvalidName::Identifier(identifier.clone())),
        ];
        for (image, wanted) in table {
            assert_eq!(full_name(image), Err(wanted), "{image:?}");
        }
    }
}
