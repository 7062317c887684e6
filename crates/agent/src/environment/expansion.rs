//! Expands `$(NAME)` in texts of a manifest. `$$` stands for `$`, so `$$(NAME)` is not a reference.

use thiserror::Error;

/// A reference that cannot be left unexpanded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExpansionError {
    /// The variable does not exist, or is empty.
    #[error("missing value for {0:?}")]
    Missing(String),
    /// The result is longer than any path.
    #[error("the result is longer than {LONGEST_PATH} bytes, the limit for a path")]
    TooLong,
}

/// The limit on Linux.
const LONGEST_PATH: usize = 4096;

/// The longest text that Linux gives a program: `NAME=value`, or one argument.
pub(super) const LONGEST_TEXT: usize = 128 << 10;

/// Returns `text` with the values of all known variables; references to others are left as they are. `None` if the
/// result is longer than any text that a program can be given.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let mut expanded = String::with_capacity(text.len().min(LONGEST_TEXT));
    for piece in Pieces(text) {
        match piece {
            Piece::Text(text) => expanded.push_str(text),
            Piece::Reference(name) => match lookup(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["$(", name, ")"]),
            },
        }
        // No piece is longer than the text or one value, so the result never grows far beyond this.
        if expanded.len() > LONGEST_TEXT {
            return None;
        }
    }
    Some(expanded)
}

/// Returns a path with the values of all its variables; a partly expanded path would be dangerous.
///
/// # Errors
///
/// If a variable is unknown or empty, or if the result is longer than any path.
pub fn expand_all_or_nothing<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, ExpansionError> {
    let mut expanded = String::with_capacity(text.len());
    for piece in Pieces(text) {
        match piece {
            Piece::Text(text) => expanded.push_str(text),
            Piece::Reference(name) => match lookup(name).filter(|value| !value.is_empty()) {
                Some(value) => expanded.push_str(value),
                None => return Err(ExpansionError::Missing(name.to_owned())),
            },
        }
        if expanded.len() > LONGEST_PATH {
            return Err(ExpansionError::TooLong);
        }
    }
    Ok(expanded)
}

enum Piece<'a> {
    Text(&'a str),
    Reference(&'a str),
}

struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let (piece, rest) = match self.0.strip_prefix('$') {
            None => {
                let (text, rest) = self.0.split_at(self.0.find('$').unwrap_or(self.0.len()));
                (Piece::Text(text), rest)
            }
            Some(after) => {
                match (after.strip_prefix('$'), after.strip_prefix('(').and_then(|name| name.split_once(')')))
                {
                    (Some(rest), _) => (Piece::Text("$"), rest),
                    (None, Some((name, rest))) => (Piece::Reference(name), rest),
                    (None, None) => (Piece::Text("$"), after),
                }
            }
        };
        self.0 = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<&'static str> {
        match name {
            "A" => Some("a"),
            "B" => Some("$(A)"),
            "EMPTY" => Some(""),
            _ => None,
        }
    }

    #[test]
    fn references_escapes_and_leftovers() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)", "xaya"),
            ("$(B)", "$(A)"),
            ("$(EMPTY)", ""),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$(UNKNOWN)$(A)", "$(UNKNOWN)a"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$$", "$"),
            ("$", "$"),
            ("a$", "a$"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$(A$(A)", "$(A$(A)"),
            ("$()", "$()"),
            ("$((A))", "$((A))"),
            ("ä$(A)ö", "äaö"),
        ] {
            assert_eq!(expand(text, lookup).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn no_text_grows_beyond_its_limit() {
        assert_eq!(expand(&"$(A)".repeat(LONGEST_TEXT), lookup), Some("a".repeat(LONGEST_TEXT)));
        assert_eq!(expand(&"$(A)".repeat(LONGEST_TEXT + 1), lookup), None);
        assert_eq!(expand(&"$(X)".repeat(LONGEST_TEXT), lookup), None);
        let long = |count: usize| expand_all_or_nothing(&"$(A)".repeat(count), lookup);
        assert_eq!(long(4096), Ok("a".repeat(4096)));
        assert_eq!(long(4097), Err(ExpansionError::TooLong));
    }

    #[test]
    fn all_or_nothing() {
        assert_eq!(expand_all_or_nothing("x/$(A)/$$(A)", lookup), Ok("x/a/$(A)".to_owned()));
        assert_eq!(
            expand_all_or_nothing("$(UNKNOWN)", lookup),
            Err(ExpansionError::Missing("UNKNOWN".to_owned()))
        );
        assert_eq!(
            expand_all_or_nothing("$(EMPTY)", lookup),
            Err(ExpansionError::Missing("EMPTY".to_owned()))
        );
    }
}
