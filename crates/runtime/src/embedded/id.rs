//! Object ids: 64 hex digits as in other runtimes, unguessable, and found by any unambiguous prefix.

use super::error::{Error, Result};

/// Returns a new id of 32 random bytes.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::io("read random bytes for an id", errno))?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a folder name is one of our ids. Ids become file names, so nothing else may pass.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The result of looking up an id that may be shortened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Exactly one object.
    One(&'a str),
    /// No object.
    None,
    /// More than one object has an id that begins like this.
    Ambiguous,
}

/// Finds the one id that equals `wanted` or begins with it.
pub(crate) fn find<'a>(ids: impl Iterator<Item = &'a String>, wanted: &str) -> Found<'a> {
    if wanted.is_empty() {
        return Found::None;
    }
    let mut found = Found::None;
    for id in ids {
        if id == wanted {
            return Found::One(id);
        }
        if id.starts_with(wanted) {
            found = match found {
                Found::None => Found::One(id),
                Found::One(_) | Found::Ambiguous => Found::Ambiguous,
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_id_is_an_id_and_is_new() {
        let (one, two) = (random().unwrap(), random().unwrap());
        assert!(is_id(&one) && is_id(&two));
        assert_ne!(one, two);
    }

    #[test]
    fn only_our_ids_are_ids() {
        for text in ["", "..", "a/b", &"g".repeat(64), &"a".repeat(63), &"A".repeat(64)] {
            assert!(!is_id(text), "{text}");
        }
    }

    #[test]
    fn a_prefix_finds_one_none_or_too_many() {
        let ids = ["abcd".to_owned(), "abce".to_owned(), "abc".to_owned(), "f00d".to_owned()];
        assert_eq!(find(ids.iter(), "f"), Found::One("f00d"));
        assert_eq!(find(ids.iter(), "ab"), Found::Ambiguous);
        assert_eq!(find(ids.iter(), "abc"), Found::One("abc"), "an exact id wins over a prefix");
        assert_eq!(find(ids.iter(), "x"), Found::None);
        assert_eq!(find(ids.iter(), ""), Found::None);
    }
}
