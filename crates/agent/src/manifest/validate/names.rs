//! The rules for names. A rule that refuses a name says what is allowed.

use crate::volumes::clean_path;

type Rule = Result<(), &'static str>;

/// `my-name`: one part of a host name.
pub(super) fn dns_label(name: &str) -> Rule {
    if name.len() > 63 {
        return Err("must be no more than 63 characters");
    }
    if !is_label(name) {
        return Err(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', or '123-abc')",
        );
    }
    Ok(())
}

/// `example.com`: a host name.
pub(super) fn dns_subdomain(name: &str) -> Rule {
    if name.len() > 253 {
        return Err("must be no more than 253 characters");
    }
    if !name.split('.').all(is_label) {
        return Err(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com')",
        );
    }
    Ok(())
}

/// The name of a node: names of pods end in it, in lower case.
pub fn check_node_name(name: &str) -> Rule {
    dns_subdomain(&name.to_lowercase())
}

/// A host name whose parts may also start with `_`, as in the search list of a resolver.
pub(super) fn search_path(name: &str) -> Rule {
    let parts: Vec<&str> = name.split('.').map(|part| part.strip_prefix('_').unwrap_or(part)).collect();
    dns_subdomain(&parts.join("."))
}

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match name.as_bytes() {
        [] => false,
        [only] => inner(*only),
        [first, middle @ .., last] => {
            inner(*first) && inner(*last) && middle.iter().all(|byte| inner(*byte) || *byte == b'-')
        }
    }
}

/// A UID, which becomes the name of a folder and a part of log paths.
pub(super) fn uid(uid: &str) -> Rule {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if uid.len() > 128 || !uid.bytes().all(plain) || !uid.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(
            "must be no more than 128 alphanumeric characters, '-' or '.', and start with an alphanumeric character",
        );
    }
    Ok(())
}

/// `app.kubernetes.io/name`: the key of a label or an annotation.
pub(super) fn qualified(name: &str) -> Rule {
    let (prefix, name) = name.rsplit_once('/').map_or((None, name), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| dns_subdomain(prefix).is_err()) {
        return Err(
            "prefix part must be a lowercase RFC 1123 subdomain of no more than 253 characters (e.g. 'example.com')",
        );
    }
    if name.is_empty() || name.len() > 63 || !is_word(name) {
        return Err(
            "name part must consist of alphanumeric characters, '-', '_' or '.', must start and end with an alphanumeric character, and must be no more than 63 characters (e.g. 'MyName', or 'my.name')",
        );
    }
    Ok(())
}

/// The value of a label.
pub(super) fn label_value(value: &str) -> Rule {
    if value.is_empty() || (value.len() <= 63 && is_word(value)) {
        return Ok(());
    }
    Err(
        "a valid label must be an empty string or consist of no more than 63 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue', or '12345')",
    )
}

fn is_word(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(ends)
        && text.ends_with(ends)
        && text.chars().all(|c| ends(c) || matches!(c, '-' | '_' | '.'))
}

/// The name of a port.
pub(super) fn port_name(name: &str) -> Rule {
    let allowed = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if name.len() > 15 {
        Err("must be no more than 15 characters")
    } else if !allowed {
        Err("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        Err("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Err("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Err("must not begin or end with a hyphen")
    } else {
        Ok(())
    }
}

/// The name of an environment variable.
pub(super) fn variable(name: &str) -> Rule {
    if name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        return Ok(());
    }
    Err("a valid environment variable name must consist only of printable ASCII characters other than '='")
}

/// A key of a config map or secret, which may become a file name.
pub(super) fn config_key(key: &str) -> Rule {
    let allowed = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    if key.is_empty() || key.len() > 253 || !allowed {
        return Err(
            "a valid config key must consist of no more than 253 alphanumeric characters, '-', '_' or '.' (e.g. 'key.name')",
        );
    }
    if key == "." || key.starts_with("..") {
        return Err("must not be '.' and must not start with '..'");
    }
    Ok(())
}

/// A path inside a volume.
pub(super) fn relative_path(path: &str) -> Rule {
    if path.starts_with('/') {
        return Err("must be a relative path");
    }
    no_backsteps(path)
}

/// A path inside a volume that the agent writes: names that begin with two dots are reserved for the agent.
pub(super) fn file_path(path: &str) -> Rule {
    relative_path(path)?;
    let clean = clean_path(path);
    if clean.is_empty() {
        return Err("must name a file");
    }
    if clean.starts_with("..") {
        return Err("must not start with '..'");
    }
    if clean.split('/').any(|part| part.len() > 255) || path.len() > 4096 {
        return Err("must have no more than 255 characters between slashes, and no more than 4096 in all");
    }
    no_zero(path)
}

/// A path that does not go up.
pub(super) fn no_backsteps(path: &str) -> Rule {
    if path.split('/').any(|part| part == "..") {
        return Err("must not contain '..'");
    }
    no_zero(path)
}

/// A text that becomes a part of a line in a file.
pub(super) fn one_line(text: &str) -> Rule {
    if text.contains(char::is_control) { Err("must not contain control characters") } else { Ok(()) }
}

fn no_zero(path: &str) -> Rule {
    if path.contains('\0') { Err("must not contain a zero byte") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let long = |count: usize| "a".repeat(count);
        let check = |rule: fn(&str) -> Rule, good: &[&str], bad: &[&str]| {
            for text in good {
                assert_eq!(rule(text), Ok(()), "{text:?}");
            }
            for text in bad {
                assert!(rule(text).is_err(), "{text:?}");
            }
        };
        check(
            dns_label,
            &["a", "a-1", "1", &long(63)],
            &["", "-a", "a-", "A", "a.b", "a_b", "ä", "a/b", &long(64)],
        );
        check(dns_subdomain, &["a.b-c.d", "1.2"], &["a..b", ".a", "a.", "a_b", "..", &long(254)]);
        check(uid, &["0a-1.b"], &["", "..", "a/b", "../x", ".a", "a b", "a_b", &long(129)]);
        check(
            qualified,
            &["app", "a.b/C_d.e", "1"],
            &["", "/a", "a/", "a/b/c", "-a", "A.b/c", "a b", &long(64)],
        );
        check(label_value, &["", "A_b.c-d"], &["-", "a b", &long(64)]);
        check(port_name, &["http", "a-1"], &["", "80", "a--b", "-a", "a-", "HTTP", &long(16)]);
        check(variable, &["A", "a.b-c d"], &["A=B", "ä", "a\nb"]);
        check(config_key, &["a", ".hidden", "a..b"], &["", ".", "..", "..data", "a/b", "ä", &long(254)]);
        check(one_line, &["", "a b"], &["a\nb", "\u{1b}[2J", "\0"]);
        check(search_path, &["_tcp.example.com"], &["a b"]);
        check(
            file_path,
            &["a", "a/b", ".a", "a..b", "a//b", "a/./b", "./a", "a/", &long(255)],
            &["", ".", "./", "/a", "../a", "a/../b", "..a", "./..a", "a\0", &long(256)],
        );
    }
}
