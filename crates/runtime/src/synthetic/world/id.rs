//! Ids in the form that runtimes assign (64 hex digits), UIDs in the form of an API server, and short ids.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

use tonic::Status;

use super::World;

impl World {
    /// Makes a new 64-digit id.
    pub(super) fn new_id(&mut self) -> String {
        self.ids_made += 1;
        let mut bytes = [0; 32];
        self.seed.rng("id", "", self.ids_made).fill(&mut bytes);
        hex(&bytes)
    }

    /// Makes a new pod UID.
    pub(super) fn new_uid(&mut self) -> String {
        self.ids_made += 1;
        let mut bytes = [0; 16];
        self.seed.rng("uid", "", self.ids_made).fill(&mut bytes);
        // Version 4, variant 1, as assigned by every API server.
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let text = hex(&bytes);
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]).collect()
}

/// The reason why an id refers to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSuch {
    /// No id begins like this.
    NotFound,
    /// Several ids begin like this.
    Ambiguous,
    /// No id was given.
    Empty,
}

impl NoSuch {
    /// Returns the error of a call, in the wording of runtimes that index ids by prefix.
    pub(crate) fn into_status(self, what: &str, id: &str) -> Status {
        let text = |why: &str| format!("an error occurred when try to find {what} {id:?}: {why}");
        match self {
            Self::NotFound => Status::not_found(text("not found")),
            Self::Ambiguous => {
                Status::unknown(text(&format!("multiple IDs found with provided prefix: {id}")))
            }
            Self::Empty => Status::unknown(text("prefix can't be empty")),
        }
    }
}

/// Finds the one entry whose id equals this text or begins with it.
pub(super) fn by_prefix<'a, K, V>(map: &'a BTreeMap<K, V>, prefix: &str) -> Result<&'a V, NoSuch>
where
    K: Ord + Borrow<str>,
{
    if prefix.is_empty() {
        return Err(NoSuch::Empty);
    }
    let mut found = map
        .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
        .take_while(|(id, _)| (*id).borrow().starts_with(prefix));
    match (found.next(), found.next()) {
        (None, _) => Err(NoSuch::NotFound),
        // A full id is never ambiguous, even if another one begins with it.
        (Some((id, value)), second) if second.is_none() || id.borrow() == prefix => Ok(value),
        (Some(_), _) => Err(NoSuch::Ambiguous),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_lead_to_the_only_match() {
        let map: BTreeMap<&str, u8> = [("ab1", 1), ("ab2", 2), ("c", 3), ("cd", 4)].into();
        assert_eq!(by_prefix(&map, "ab1"), Ok(&1));
        assert_eq!(by_prefix(&map, "ab"), Err(NoSuch::Ambiguous));
        assert_eq!(by_prefix(&map, "cd"), Ok(&4));
        assert_eq!(by_prefix(&map, "c"), Ok(&3), "a full id wins over a longer one");
        assert_eq!(by_prefix(&map, "x"), Err(NoSuch::NotFound));
        assert_eq!(by_prefix(&map, ""), Err(NoSuch::Empty));
    }
}
