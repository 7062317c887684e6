//! Makes foreign texts (from containers, runtimes, registries, manifests) safe for a terminal: they must not move the
//! cursor, change colours, or pass for a message of rubelet. Styles are added afterwards.

/// Returns a text as one line. White space becomes a space; other control characters are replaced.
pub(crate) fn clean(text: &str) -> String {
    let harmless = |c: char| match c {
        c if !c.is_control() => c,
        c if c.is_whitespace() => ' ',
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(harmless).collect()
}

/// Returns a text with its line breaks kept.
pub(crate) fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_that_a_terminal_acts_upon() {
        let table = [
            ("", ""),
            ("größe 日本", "größe 日本"),
            ("\u{1b}[2Jx\u{9b}1m\u{7}\u{8}\u{0}\u{7f}", "�[2Jx�1m����"),
            ("a\tb\r\u{b}c", "a b  c"),
        ];
        for (text, expected) in table {
            assert_eq!(clean(text), expected, "{text:?}");
            assert_eq!(clean_lines(text), expected, "{text:?}");
        }
        assert_eq!(clean("one\ntwo\n"), "one two ");
        assert_eq!(clean_lines("one\n\u{1b}two\n"), "one\n�two\n");
    }
}
