//! Decides, as the kubelet does, which credentials match which image.

use std::collections::BTreeMap;

use super::docker_config::{Credential, DockerConfig};

/// The registry of images whose names state no other, as docker writes it in its configuration.
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// Credentials by registry and path, without scheme.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyring(BTreeMap<String, Vec<Credential>>);

impl Keyring {
    /// Adds the credentials of a configuration. For the same place, those added earlier are tried first.
    pub(super) fn add(&mut self, config: DockerConfig) {
        for (registry, credential) in config {
            self.0.entry(place(&registry)).or_default().push(credential);
        }
    }

    /// Returns the credentials to try for an image with this full name (registry, path, no tag), the most specific
    /// first.
    pub(super) fn lookup(&self, repository: &str) -> Vec<Credential> {
        let fitting = self.0.iter().rev().filter(|(place, _)| fits(place, repository));
        let found: Vec<Credential> = fitting.flat_map(|(_, credentials)| credentials.clone()).collect();
        if found.is_empty() && is_of_default_registry(repository) {
            return self.0.get(DEFAULT_REGISTRY).cloned().unwrap_or_default();
        }
        found
    }
}

/// Returns the host, port and path of a registry in a configuration. `/v1/` and `/v2/` are the registry's own paths.
fn place(registry: &str) -> String {
    let bare =
        registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://")).unwrap_or(registry);
    let (host, path) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
    let path = match path.get(..4) {
        Some("/v1/" | "/v2/") => &path[3..],
        _ => path,
    };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Whether a place, in which the parts of the host may be patterns, covers this repository.
fn fits(place: &str, repository: &str) -> bool {
    let split = |name: &str| {
        let (address, path) = name.split_at(name.find('/').unwrap_or(name.len()));
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let (pattern, wanted_port, prefix) = split(place);
    let (host, port, path) = split(repository);
    let (patterns, parts) = (pattern.split('.'), host.split('.'));
    let is_host = || {
        patterns.clone().count() == parts.clone().count()
            && patterns.zip(parts).all(|(pattern, part)| is_match(pattern.as_bytes(), part.as_bytes()))
    };
    // As a pattern, the brackets of an IPv6 address would be a set, which is never what is meant.
    let is_address = || host.starts_with('[') && pattern == host;
    port == wanted_port && path.starts_with(&prefix) && (is_address() || is_host())
}

/// Matches shell patterns: `*`, `?`, and sets such as `[a-z]` or `[^0-9]`. It backtracks only to the last `*`: whatever
/// an earlier one could match instead, the last one can absorb. So no pattern takes long, whoever wrote it.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut last_star = None;
    loop {
        match (pattern, text) {
            ([], []) => return true,
            ([b'*', rest @ ..], _) => {
                last_star = Some((rest, text));
                pattern = rest;
                continue;
            }
            _ => {}
        }
        (pattern, text) = match (after_one(pattern, text), last_star) {
            (Some(rest), _) => rest,
            (None, Some((rest, [_, others @ ..]))) => {
                last_star = Some((rest, others));
                (rest, others)
            }
            (None, _) => return false,
        };
    }
}

/// Returns what is left of both after one matching character. The pattern does not start with `*`.
fn after_one<'a>(pattern: &'a [u8], text: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (first, others) = text.split_first()?;
    let (is_fitting, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|byte| *byte == b']')?;
            (is_in_set(&rest[..=end], *first), &rest[end + 2..])
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (literal == first, rest),
    };
    is_fitting.then_some((rest, others))
}

fn is_in_set(set: &[u8], byte: u8) -> bool {
    let (is_negated, mut set) = match set {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut is_in = false;
    while let [low, rest @ ..] = set {
        set = match rest {
            [b'-', high, rest @ ..] => {
                is_in |= (*low..=*high).contains(&byte);
                rest
            }
            _ => {
                is_in |= *low == byte;
                rest
            }
        };
    }
    is_in != is_negated
}

/// Whether the first part of a name is no registry, or is docker's.
fn is_of_default_registry(repository: &str) -> bool {
    match repository.split_once('/') {
        None => !repository.is_empty(),
        Some(("docker.io" | "index.docker.io", _)) => true,
        Some((first, _)) => !first.is_empty() && !first.contains(['.', ':']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(places: &[&str]) -> Keyring {
        let mut keyring = Keyring::default();
        for place in places {
            let credential = Credential { username: (*place).to_owned(), password: String::new() };
            keyring.add([((*place).to_owned(), credential)].into());
        }
        keyring
    }

    fn users(keyring: &Keyring, repository: &str) -> Vec<String> {
        keyring.lookup(repository).into_iter().map(|credential| credential.username).collect()
    }

    #[test]
    fn credentials_fit_by_host_port_path_and_pattern() {
        let table = [
            ("r.io", "r.io/a", true),
            ("https://r.io", "r.io/a", true),
            ("http://r.io/v1/", "r.io/a", true),
            ("https://r.io/v2/", "r.io/a/b", true),
            ("r.io/", "r.io/a", true),
            ("r.io/team", "r.io/team/a", true),
            ("r.io/v2/team", "r.io/team/a", true),
            ("r.io/te", "r.io/team/a", true),
            ("r.io/team", "r.io/other/a", false),
            ("r.io", "other.io/a", false),
            ("r.io:5000", "r.io:5000/a", true),
            ("r.io", "r.io:5000/a", false),
            ("r.io:5000", "r.io/a", false),
            ("localhost:5000", "localhost:5000/a", true),
            ("[fd00::1]:5000", "[fd00::1]:5000/a", true),
            ("[fd00::1]", "[fd00::1]/a", true),
            ("[fd00::1]", "[fd00::1]:5000/a", false),
            ("*.r.io", "eu.r.io/a", true),
            ("*.r.io", "r.io/a", false),
            ("*.r.io", "a.eu.r.io/a", false),
            ("*.*.r.io", "a.eu.r.io/a", true),
            ("eu*.r.io", "eu-west.r.io/a", true),
            ("eu?.r.io", "eu1.r.io/a", true),
            ("eu[0-9].r.io", "eu1.r.io/a", true),
            ("eu[^0-9].r.io", "eu1.r.io/a", false),
            ("eu[.r.io", "eu[.r.io/a", false),
            ("*", "r.io/a", false),
            ("*.io", "r.io/a", true),
            ("docker.io", "docker.io/library/nginx", true),
            ("https://index.docker.io/v1/", "docker.io/library/nginx", true),
            ("index.docker.io", "docker.io/team/app", true),
            ("index.docker.io", "r.io/a", false),
            ("index.docker.io", "localhost:5000/a", false),
        ];
        for (place, repository, wanted) in table {
            let found = users(&keyring(&[place]), repository);
            assert_eq!(!found.is_empty(), wanted, "{place} for {repository}");
        }
    }

    #[test]
    fn patterns_match_in_all_the_ways_of_a_shell_and_never_take_long() {
        let (greedy, long) = ("*a".repeat(30) + "b", "a".repeat(200));
        let table = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "ab", true),
            ("*b", "abab", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*[0-9]b", "1a2b", true),
            ("*?b", "b", false),
            (r"\*a", "*a", true),
            (r"\*a", "aa", false),
            ("*[", "[", false),
            (&greedy, &long, false),
        ];
        for (pattern, text, wanted) in table {
            assert_eq!(is_match(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} for {text}");
        }
    }

    #[test]
    fn the_most_specific_is_tried_first_and_the_earlier_of_equals() {
        let all = keyring(&["r.io", "r.io/team/a", "*.io", "r.io/team", "https://r.io/team/a"]);
        let wanted = ["r.io/team/a", "https://r.io/team/a", "r.io/team", "r.io", "*.io"];
        assert_eq!(users(&all, "r.io/team/a"), wanted);
        let docker = keyring(&["index.docker.io", "docker.io"]);
        assert_eq!(
            users(&docker, "docker.io/library/nginx"),
            ["docker.io"],
            "the other one is a last resort"
        );
    }
}
