//! The meaning of an entry's name in a layer: pure rules that apply before any file is touched.

use std::ffi::CString;

use super::marks::{OPAQUE_NAME, PREFIX};

/// The longest path. Longer ones cannot be opened in one call, so no image contains them.
const MAX_PATH: usize = 4095;
/// The prefix of names that an old union filesystem kept for its own use.
const META_PREFIX: &[u8] = b".wh..wh.";

/// Where an entry belongs, relative to the layer's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The directories on the path, none of them empty, `.` or `..`.
    pub(crate) parents: Vec<Vec<u8>>,
    /// The last part of the path; `None` for the root itself.
    pub(crate) name: Option<CString>,
}

/// The meaning of the last part of an entry's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An ordinary entry.
    Entry,
    /// This name is deleted from lower layers.
    Whiteout(CString),
    /// Everything that lower layers have in this directory is deleted.
    Opaque,
    /// To be ignored.
    Ignored,
}

/// The reason why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A part of it is `..`.
    #[error("its path has a \"..\" part")]
    Parent,
    /// It contains a NUL byte.
    #[error("its path has a zero byte")]
    Nul,
    /// It is longer than the system allows.
    #[error("its path is longer than {MAX_PATH} bytes")]
    TooLong,
    /// It is nested deeper than the limit.
    #[error("it is nested more than {0} directories deep")]
    TooDeep(usize),
    /// A directory on its path is named like a whiteout, or a whiteout names nothing.
    #[error("its name misuses the whiteout prefix \".wh.\"")]
    Whiteout,
    /// It consists of slashes and dots only, but the entry is not a directory.
    #[error("it has no name")]
    Nameless,
}

impl Place {
    /// Parses a path. A leading slash means the layer's root, as everywhere; `..` is refused, since no builder writes
    /// it.
    pub(crate) fn parse(path: &[u8], max_depth: usize) -> Result<Self, PathError> {
        if path.len() > MAX_PATH {
            return Err(PathError::TooLong);
        }
        let mut parts = Vec::new();
        for part in path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(PathError::Parent),
                part if part.contains(&0) => return Err(PathError::Nul),
                part => parts.push(part.to_vec()),
            }
        }
        if parts.len() > max_depth {
            return Err(PathError::TooDeep(max_depth));
        }
        let name = parts.pop().map(CString::new).transpose().map_err(|_| PathError::Nul)?;
        Ok(Self { parents: parts, name })
    }

    /// Returns what the entry of this name means.
    pub(crate) fn meaning(&self) -> Result<Meaning, PathError> {
        if self.parents.iter().any(|part| part.starts_with(PREFIX)) {
            return Err(PathError::Whiteout);
        }
        let Some(name) = &self.name else { return Ok(Meaning::Entry) };
        let name = name.to_bytes();
        if name == OPAQUE_NAME.to_bytes() {
            return Ok(Meaning::Opaque);
        }
        if name.starts_with(META_PREFIX) {
            return Ok(Meaning::Ignored);
        }
        match name.strip_prefix(PREFIX) {
            None => Ok(Meaning::Entry),
            // `.wh...` would remove the parent, and `.wh..` the directory itself.
            Some(b"" | b"." | b"..") => Err(PathError::Whiteout),
            Some(hidden) => CString::new(hidden).map(Meaning::Whiteout).map_err(|_| PathError::Nul),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &[u8]) -> Result<Place, PathError> {
        Place::parse(path, 8)
    }

    #[test]
    fn paths_are_read_as_relative_to_the_root() {
        for (path, parents, name) in [
            ("a", vec![], Some("a")),
            ("./a", vec![], Some("a")),
            ("/a/b/", vec!["a"], Some("b")),
            ("a//./b", vec!["a"], Some("b")),
            ("/", vec![], None),
            ("./", vec![], None),
            ("", vec![], None),
            ("...", vec![], Some("...")),
            ("a\\..\\b", vec![], Some("a\\..\\b")),
        ] {
            let place = parse(path.as_bytes()).unwrap();
            let parents: Vec<Vec<u8>> = parents.into_iter().map(|part| part.as_bytes().to_vec()).collect();
            assert_eq!(place.parents, parents, "{path}");
            assert_eq!(place.name, name.map(|name| CString::new(name).unwrap()), "{path}");
        }
    }

    #[test]
    fn paths_that_go_up_or_too_far_are_refused() {
        for (path, error) in [
            (b"../x".to_vec(), PathError::Parent),
            (b"a/../../x".to_vec(), PathError::Parent),
            (b"/..".to_vec(), PathError::Parent),
            (b"a/..".to_vec(), PathError::Parent),
            (b"a\0/b".to_vec(), PathError::Nul),
            (b"a\0".to_vec(), PathError::Nul),
            ("a/".repeat(9).into_bytes(), PathError::TooDeep(8)),
            ("a".repeat(5000).into_bytes(), PathError::TooLong),
        ] {
            assert_eq!(parse(&path), Err(error), "{path:?}");
        }
    }

    #[test]
    fn whiteouts() {
        let hides = |name: &str| Ok(Meaning::Whiteout(CString::new(name).unwrap()));
        for (path, meaning) in [
            ("a/b", Ok(Meaning::Entry)),
            (".", Ok(Meaning::Entry)),
            ("a/.wh.b", hides("b")),
            (".wh.b", hides("b")),
            ("a/.wh....", hides("...")),
            (".wh..b", hides(".b")),
            ("a/.wh..wh..opq", Ok(Meaning::Opaque)),
            (".wh..wh.plnk", Ok(Meaning::Ignored)),
            (".wh..wh.aufs", Ok(Meaning::Ignored)),
            (".wh.", Err(PathError::Whiteout)),
            (".wh..", Err(PathError::Whiteout)),
            (".wh...", Err(PathError::Whiteout)),
            ("a/.wh.b/c", Err(PathError::Whiteout)),
            (".wh..wh..opq/c", Err(PathError::Whiteout)),
            ("a/wh.b", Ok(Meaning::Entry)),
        ] {
            assert_eq!(parse(path.as_bytes()).unwrap().meaning(), meaning, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_path_has_a_part_that_moves(path in proptest::collection::vec(
            proptest::prop_oneof![
                proptest::strategy::Just(b'/'), proptest::strategy::Just(b'.'),
                proptest::strategy::Just(b'a'), proptest::num::u8::ANY,
            ], 0..64)) {
            if let Ok(place) = parse(&path) {
                let name = place.name.iter().map(|name| name.to_bytes());
                for part in place.parents.iter().map(Vec::as_slice).chain(name) {
                    proptest::prop_assert!(!matches!(part, b"" | b"." | b".."));
                    proptest::prop_assert!(!part.contains(&b'/') && !part.contains(&0));
                }
                if let Ok(Meaning::Whiteout(hidden)) = place.meaning() {
                    let hidden = hidden.to_bytes();
                    proptest::prop_assert!(!matches!(hidden, b"" | b"." | b".."));
                    proptest::prop_assert!(!hidden.contains(&b'/'));
                }
            }
        }
    }
}
