//! JSON values that follow one another, as programs write them: `jq -c '.items[]'`, for example.

use serde::de::IgnoredAny;

use super::{MOST_DOCUMENTS, MOST_NODES, Node, SyntaxError, yaml};

/// Returns the values of a text, each as a document; `None` if the text is not a stream of JSON values, and should be
/// parsed as YAML.
pub(super) fn documents(text: &str) -> Option<Result<Vec<Node<'_>>, SyntaxError>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match pieces(text) {
        // The problems of a single value are reported as for YAML.
        Ok(pieces) if pieces.len() < 2 => None,
        Ok(pieces) => Some(read(&pieces)),
        Err(Broken::NotJson) => None,
        Err(Broken::Syntax(error)) => Some(Err(error)),
    }
}

enum Broken {
    NotJson,
    Syntax(SyntaxError),
}

/// Returns the text of each value, with the whitespace before it.
fn pieces(text: &str) -> Result<Vec<&str>, Broken> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(value) = values.next() {
        if let Err(error) = value {
            let is_next = text[start..].trim_start().starts_with('{');
            if pieces.is_empty() || !is_next {
                return Err(Broken::NotJson);
            }
            let (told, line) = (error.to_string(), u32::try_from(error.line()).ok());
            // The location is reported separately.
            let message = told.split(" at line ").next().unwrap_or_default().to_owned();
            return Err(Broken::Syntax(SyntaxError { line, message }));
        }
        let end = values.byte_offset();
        pieces.push(&text[start..end]);
        start = end;
        if pieces.len() > MOST_DOCUMENTS {
            let message = format!("has more than {MOST_DOCUMENTS} documents");
            return Err(Broken::Syntax(SyntaxError { line: None, message }));
        }
    }
    Ok(pieces)
}

fn read<'a>(pieces: &[&'a str]) -> Result<Vec<Node<'a>>, SyntaxError> {
    let (mut documents, mut lines, mut values) = (Vec::new(), 0, 0);
    for piece in pieces {
        let further_down = |line: Option<u32>| line.map(|line| line.saturating_add(lines));
        let read = yaml(piece);
        let read = read.map_err(|error| SyntaxError { line: further_down(error.line), ..error })?;
        for mut document in read {
            document.move_down(lines);
            values += document.count();
            documents.push(document);
        }
        if values > MOST_NODES {
            let message = format!("has more than {MOST_NODES} values");
            return Err(SyntaxError { line: Some(lines + 1), message });
        }
        lines += u32::try_from(piece.matches('\n').count()).unwrap_or(u32::MAX);
    }
    Ok(documents)
}
