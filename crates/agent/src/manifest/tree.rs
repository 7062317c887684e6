//! The text of a manifest as a tree of values that know their lines. YAML is parsed with limits that no honest manifest
//! reaches, so that a hostile one costs little memory and time. JSON is parsed as YAML, with one exception: several
//! JSON values may follow one another without separators.

mod json;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{DefaultMessageFormatter, Error, Location, MessageFormatter, Spanned};

use super::problem::beginning;

/// The maximum size of a manifest, in bytes.
pub const LARGEST_MANIFEST: usize = 10 << 20;

const MOST_DOCUMENTS: usize = 1024;
const MOST_NODES: usize = 100_000;
const DEEPEST: usize = 32;
/// The maximum size after alias expansion.
const MOST_TEXT: usize = 2 * LARGEST_MANIFEST;
/// Anchors serve to avoid repeating a few lines. These limits bound what all aliases together may add to a file.
const MOST_ALIASES: usize = 1000;
const MOST_ALIASED_NODES: usize = 50_000;
const MOST_ANCHORED_BYTES: usize = 64 << 10;

/// How much of a file a message about it may quote.
const LONGEST_QUOTE: usize = 256;

/// A value, and its location.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node<'a> {
    /// The line, counted from 1; 0 if unknown.
    pub(super) line: u32,
    pub(super) value: Value<'a>,
    /// The byte range of the source text, if it is a number that is too large to be one.
    too_large: Option<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// A text that cannot be parsed into a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: Option<u32>,
    pub(super) message: String,
}

/// Returns the documents of a text, without the empty ones.
pub(super) fn documents(text: &str) -> Result<Vec<Node<'_>>, SyntaxError> {
    yaml(text).or_else(|error| json::documents(text).unwrap_or(Err(error)))
}

fn yaml(text: &str) -> Result<Vec<Node<'_>>, SyntaxError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: MOST_DOCUMENTS,
            max_nodes: MOST_NODES,
            max_depth: DEEPEST,
            flow_nesting_limit: DEEPEST,
            max_total_scalar_bytes: MOST_TEXT,
            max_aliases: MOST_ALIASES,
            max_recorded_anchor_events: MOST_ALIASED_NODES,
            max_recorded_anchor_bytes: MOST_ANCHORED_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MOST_ALIASED_NODES,
            max_replay_stack_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // Kubernetes reads YAML the same way: `defaultMode: 0644` is octal.
        legacy_octal_numbers: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    let documents: Vec<Spanned<Value<'_>>> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| syntax_error(&error))?;
    let mut documents: Vec<Node<'_>> = documents.into_iter().map(Node::from).collect();
    documents.iter_mut().for_each(|document| document.spell_out(text));
    Ok(documents)
}

fn syntax_error(error: &Error) -> SyntaxError {
    let mut innermost = error;
    while let Error::AliasError { error, .. } | Error::WithSnippet { error, .. } = innermost {
        innermost = error;
    }
    let message = match innermost {
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => format!("is nested deeper than {DEEPEST} levels"),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("has more than {MOST_NODES} values")
            }
            BudgetBreach::Documents { .. } => format!("has more than {MOST_DOCUMENTS} documents"),
            BudgetBreach::ScalarBytes { .. } => "is too large once its aliases are expanded".to_owned(),
            _ => "has too many or too large anchors and aliases; write out what they stand for".to_owned(),
        },
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("has the key {:?} twice in the same map", beginning(key, LONGEST_QUOTE))
        }
        Error::NullIntoString { .. } => "has a value without a key before the colon".to_owned(),
        // The location is reported separately, and the text may have come from the file.
        other => beginning(&DefaultMessageFormatter.format_message(other), LONGEST_QUOTE)
            .replace(char::is_control, " "),
    };
    let line = error.location().map(|location| u32::try_from(location.line()).unwrap_or(u32::MAX));
    SyntaxError { line, message }
}

impl<'a> Node<'a> {
    /// What looks like a number but is too large is a string, as in Kubernetes: the short hash `123e4567`, for example.
    fn spell_out(&mut self, text: &'a str) {
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.spell_out(text)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| value.spell_out(text)),
            _ => {
                let written = self.too_large.take().and_then(|place| text.get(place));
                let has_digits = |written: &&str| {
                    written.trim_start_matches(['+', '-']).starts_with(|char: char| char.is_ascii_digit())
                };
                if let Some(written) = written.filter(has_digits) {
                    self.value = Value::Text(Cow::Borrowed(written));
                }
            }
        }
    }

    /// Returns the number of values in this tree, including itself.
    fn count(&self) -> usize {
        1 + match &self.value {
            Value::List(items) => items.iter().map(Node::count).sum(),
            Value::Map(entries) => entries.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }

    /// Moves the tree down by this many lines.
    fn move_down(&mut self, lines: u32) {
        self.line = self.line.saturating_add(lines);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.move_down(lines)),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| value.move_down(lines)),
            _ => {}
        }
    }

    /// Returns the value of a key, if this is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the line of a field by a path such as `spec.containers[0].ports[1].name`, or of the innermost existing
    /// parent.
    pub(super) fn line_of(&self, path: &str) -> u32 {
        let mut node = self;
        let mut rest = path;
        while !rest.is_empty() {
            let (next, after) = if let Some(inside) = rest.strip_prefix('[') {
                let Some((key, after)) = inside.split_once(']') else { break };
                (node.item(key).or_else(|| node.get(key)), after)
            } else {
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                let (key, after) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
                (node.get(key), after)
            };
            match next {
                Some(next) => (node, rest) = (next, after),
                None => break,
            }
        }
        node.line
    }

    fn item(&self, index: &str) -> Option<&Node<'a>> {
        match &self.value {
            Value::List(items) => items.get(index.parse::<usize>().ok()?),
            _ => None,
        }
    }
}

impl<'a> From<Spanned<Value<'a>>> for Node<'a> {
    fn from(spanned: Spanned<Value<'a>>) -> Self {
        let too_large = match spanned.value {
            Value::Float(number) if number.is_infinite() => bytes(&spanned.defined),
            _ => None,
        };
        let line = u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX);
        Self { line, value: spanned.value, too_large }
    }
}

fn bytes(location: &Location) -> Option<Range<usize>> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    Some(start..start + usize::try_from(span.byte_len()?).ok()?)
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Value::Signed(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Value::Unsigned(value), Value::Signed))
    }

    /// Kubernetes reads YAML the same way: `30.0`, `3e1` and `08` are integers.
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(whole(value).map_or(Value::Float(value), Value::Signed))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value<'de>>>()? {
            list.push(Node::from(item));
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Key<'de>>()? {
            map.push((key.0, Node::from(entries.next_value::<Spanned<Value<'de>>>()?)));
        }
        Ok(Value::Map(map))
    }
}

fn whole(value: f64) -> Option<i64> {
    #[expect(clippy::cast_precision_loss, reason = "the limits of whole numbers are powers of two")]
    let range = i64::MIN as f64..-(i64::MIN as f64);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the limits")]
    (value.fract() == 0.0 && range.contains(&value)).then_some(value as i64)
}

/// A key of a map, which is always text, whatever it looks like.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

#[cfg(test)]
mod tests;
