//! Decodes a tree of values into a typed object, as strictly as the API server: a number is not a string, and `null` is
//! the same as absent. Errors and unknown fields have their path and line.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

use k8s_openapi::Resource;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use strsim::osa_distance;

use super::bounded::Bounded;
use super::problem::beginning;
use super::tree::{Node, Value};

/// The maximum length of a list. Types are large even where their text is short: `{}` is a container of a kilobyte.
const MOST_ITEMS: usize = 5000;
/// How much of a path is shown: keys of maps may be as long as the file.
const LONGEST_PATH: usize = 512;
/// How many characters of a value are shown.
const LONGEST_VALUE: usize = 40;

/// A value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypeError {
    pub(super) path: String,
    pub(super) line: u32,
    pub(super) message: String,
}

/// A field that the type does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    pub(super) path: String,
    pub(super) line: u32,
    /// A field of the type with a similar spelling.
    pub(super) meant: Option<&'static str>,
}

/// Returns the object in a tree, and the fields that its type does not have.
pub(super) fn decode<T: DeserializeOwned + Resource>(
    node: &Node<'_>,
) -> Result<(T, Bounded<UnknownField>), TypeError> {
    let unknown = RefCell::new(Bounded::default());
    let reader = Reader { node, place: &Place::Root(T::KIND), siblings: &[], unknown: &unknown };
    match T::deserialize(reader) {
        Ok(object) => Ok((object, unknown.into_inner())),
        Err(Failure { message, place }) => {
            let (path, line) = place.unwrap_or_default();
            Err(TypeError { path, line, message })
        }
    }
}

/// The current path: a linked list on the stack, rendered only if there is something to report.
enum Place<'p> {
    /// The root of an object of this kind.
    Root(&'static str),
    Field(&'p Place<'p>, &'p str),
    Key(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    fn shown(&self) -> String {
        beginning(&self.to_string(), LONGEST_PATH).to_owned()
    }

    /// Whether the value here may be a secret, and must not be shown.
    fn is_secret(&self) -> bool {
        match self {
            Self::Root(_) => false,
            Self::Field(Self::Root("Secret"), "data" | "stringData") => true,
            Self::Field(parent, _) | Self::Key(parent, _) | Self::Item(parent, _) => parent.is_secret(),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(_) => Ok(()),
            Self::Field(Self::Root(_), name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, name) => write!(f, "{parent}[{name}]"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// An error that acquires its place on the way out.
#[derive(Debug)]
struct Failure {
    message: String,
    place: Option<(String, u32)>,
}

impl de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), place: None }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("expected {}, found {}", named(expected), Found(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }
}

/// Names an expected type in the terms of a manifest.
fn named(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "IntOrString" => "a whole number or a string".to_owned(),
        "Quantity" => "a quantity such as 500m or 64Mi".to_owned(),
        other => other.to_owned(),
    }
}

/// Describes what was found instead.
struct Found<'a>(Unexpected<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Unit => f.write_str("nothing"),
            Unexpected::Bool(value) => write!(f, "the boolean {value}"),
            Unexpected::Signed(value) => write!(f, "the number {value}"),
            Unexpected::Unsigned(value) => write!(f, "the number {value}"),
            Unexpected::Float(value) if value.is_nan() => f.write_str("the number .nan"),
            Unexpected::Float(f64::INFINITY) => f.write_str("the number .inf"),
            Unexpected::Float(f64::NEG_INFINITY) => f.write_str("the number -.inf"),
            Unexpected::Float(value) => write!(f, "the number {value}"),
            Unexpected::Str(text) => {
                write!(f, "the string {:?}", text.chars().take(LONGEST_VALUE).collect::<String>())
            }
            Unexpected::Seq => f.write_str("a list"),
            Unexpected::Map => f.write_str("a map"),
            other => write!(f, "{other}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[derive(Clone, Copy)]
struct Reader<'t, 'p> {
    node: &'t Node<'t>,
    place: &'p Place<'p>,
    /// All fields of the type that has this value as a field.
    siblings: &'static [&'static str],
    unknown: &'p RefCell<Bounded<UnknownField>>,
}

impl<'t> Reader<'t, '_> {
    fn located<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.map_err(|failure| Failure {
            place: failure.place.or_else(|| Some((self.place.shown(), self.node.line))),
            ..failure
        })
    }

    fn wrong<T>(&self, expected: &str, hint: &str) -> Result<T, Failure> {
        let found = match &self.node.value {
            Value::Bool(_) if self.place.is_secret() => Unexpected::Other("a boolean"),
            Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) if self.place.is_secret() => {
                Unexpected::Other("a number")
            }
            Value::Text(_) if self.place.is_secret() => Unexpected::Other("a string"),
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Signed(value) => Unexpected::Signed(*value),
            Value::Unsigned(value) => Unexpected::Unsigned(*value),
            Value::Float(value) => Unexpected::Float(*value),
            Value::Text(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        };
        let message = format_args!("expected {expected}, found {}{hint}", Found(found));
        self.located(Err(de::Error::custom(message)))
    }

    /// Returns where plain text belongs instead, if this may be a place for bytes.
    fn place_of_plain_text(&self) -> Option<&'static str> {
        match self.place {
            Place::Key(Place::Field(Place::Root(_), "data"), _) => Some("stringData"),
            Place::Key(Place::Field(Place::Root(_), "binaryData"), _) => Some("data"),
            _ => None,
        }
    }

    /// Visits a text as it is.
    fn text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure>
    where
        't: 'de,
    {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_borrowed_str("")),
            Value::Text(text) => self.located(visitor.visit_borrowed_str(text)),
            Value::Bool(_) | Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) => {
                self.wrong("a string", "; put it in quotes")
            }
            Value::List(_) | Value::Map(_) => self.wrong("a string", ""),
        }
    }

    /// Visits an integer within these limits.
    fn number<'de, V: Visitor<'de>>(
        self,
        limits: RangeInclusive<i64>,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_i64(0)),
            Value::Signed(value) if limits.contains(value) => self.located(visitor.visit_i64(*value)),
            Value::Signed(_) | Value::Unsigned(_) => {
                self.wrong(&format!("a whole number from {} to {}", limits.start(), limits.end()), "")
            }
            Value::Text(text) if text.parse::<i64>().is_ok() => self.wrong("a number", "; remove the quotes"),
            _ => self.wrong("a whole number", ""),
        }
    }

    fn entries<'de, V: Visitor<'de>>(
        self,
        fields: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value, Failure>
    where
        't: 'de,
    {
        let entries: &[_] = match &self.node.value {
            Value::Null => &[],
            Value::Map(entries) => entries,
            _ => return self.wrong("a map", ""),
        };
        let access = Entries { entries: entries.iter(), value: None, map: self, fields };
        self.located(visitor.visit_map(access))
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_unit()),
            Value::Bool(value) => self.located(visitor.visit_bool(*value)),
            Value::Signed(value) => self.located(visitor.visit_i64(*value)),
            Value::Unsigned(value) => self.located(visitor.visit_u64(*value)),
            Value::Float(value) => self.located(visitor.visit_f64(*value)),
            Value::Text(text) => self.located(visitor.visit_borrowed_str(text)),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.entries(None, visitor),
        }
    }

    /// Visits a text that is not taken as it is: where both plain text and bytes are possible, the types of bytes come
    /// here.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match (&self.node.value, self.place_of_plain_text()) {
            (Value::Text(text), Some(plain)) => {
                // Programs that wrap lines print it this way.
                let unbroken: String = text.chars().filter(|char| !matches!(char, '\r' | '\n')).collect();
                // The message does not quote the text, which may be a secret.
                let explained = |_: Failure| {
                    <Failure as de::Error>::custom(format_args!(
                        "must be base64; put plain text under {plain}"
                    ))
                };
                self.located(visitor.visit_str(&unbroken).map_err(explained))
            }
            _ => self.text(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.text(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_bool(false)),
            Value::Bool(value) => self.located(visitor.visit_bool(*value)),
            Value::Text(text) if matches!(&**text, "true" | "false") => {
                self.wrong("a boolean", "; remove the quotes")
            }
            _ => self.wrong("a boolean (true or false)", ""),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(i64::from(i32::MIN)..=i64::from(i32::MAX), visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.number(i64::MIN..=i64::MAX, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match &self.node.value {
            Value::Null => self.located(visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match (name, &self.node.value) {
            ("Quantity", Value::Null) => self.located(visitor.visit_str("0")),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let items: &[_] = match &self.node.value {
            Value::Null => &[],
            Value::List(items) if items.len() > MOST_ITEMS => {
                let message = format_args!("has {} items; at most {MOST_ITEMS} are allowed", items.len());
                return self.located(Err(de::Error::custom(message)));
            }
            Value::List(items) => items,
            _ => return self.wrong("a list", ""),
        };
        self.located(visitor.visit_seq(Items { items: items.iter().enumerate(), list: self }))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.entries(None, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.entries(Some(fields), visitor)
    }

    /// The generated types call this for fields that they do not know.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        self.unknown.borrow_mut().push(|| {
            let path = self.place.shown();
            let name = path.rsplit('.').next().unwrap_or_default();
            let meant = alike(name, self.siblings);
            UnknownField { path, line: self.node.line, meant }
        });
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Items<'t, 'p> {
    items: std::iter::Enumerate<std::slice::Iter<'t, Node<'t>>>,
    list: Reader<'t, 'p>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Failure> {
        let Some((index, node)) = self.items.next() else { return Ok(None) };
        let place = Place::Item(self.list.place, index);
        seed.deserialize(Reader { node, place: &place, siblings: &[], unknown: self.list.unknown }).map(Some)
    }
}

struct Entries<'t, 'p> {
    entries: std::slice::Iter<'t, (std::borrow::Cow<'t, str>, Node<'t>)>,
    value: Option<(&'t str, &'t Node<'t>)>,
    map: Reader<'t, 'p>,
    /// The fields of the type; `None` if it is a map with arbitrary keys.
    fields: Option<&'static [&'static str]>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Failure> {
        let Some((name, node)) = self.entries.next() else { return Ok(None) };
        self.value = Some((name, node));
        let key: BorrowedStrDeserializer<'de, Failure> = BorrowedStrDeserializer::new(name);
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failure> {
        let Some((name, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let (place, siblings) = match self.fields {
            Some(fields) => (Place::Field(self.map.place, name), fields),
            None => (Place::Key(self.map.place, name), &[][..]),
        };
        seed.deserialize(Reader { node, place: &place, siblings, unknown: self.map.unknown })
    }
}

/// Returns a known name that may have been meant: one that differs only in case or by one or two typos (a letter too
/// many, too few or wrong, or two that are swapped).
pub(super) fn alike(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    let allowed = if name.len() > 5 { 2 } else { 1 };
    known
        .iter()
        // Names may be as long as a manifest.
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (osa_distance(&name.to_lowercase(), &candidate.to_lowercase()), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
