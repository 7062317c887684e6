//! Finds out the fields of API types by having them deserialize themselves from nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::de::value::{BorrowedStrDeserializer, Error};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Value, json};

/// The shape of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Struct(&'static str),
    List(Box<Shape>),
    Map(Box<Shape>),
    Text,
    Quantity,
    Number,
    Bool,
    Any,
}

impl Shape {
    /// Returns the inner type, if there is one.
    pub(super) fn part(&self) -> Option<&'static str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::List(item) | Self::Map(item) => item.part(),
            Self::Text | Self::Quantity | Self::Number | Self::Bool | Self::Any => None,
        }
    }

    /// Returns an example of this shape, with empty structs.
    pub(super) fn example(&self) -> Value {
        match self {
            Self::Struct(_) => json!({}),
            Self::List(item) => json!([item.example()]),
            Self::Map(item) => json!({ "k": item.example() }),
            Self::Text => json!("x"),
            Self::Quantity => json!("1"),
            Self::Number | Self::Any => json!(1),
            Self::Bool => json!(true),
        }
    }
}

pub(super) type Types = BTreeMap<&'static str, Vec<(&'static str, Shape)>>;

/// Returns every type that can be reached from `T`, with its fields sorted by name.
pub(super) fn types_in<T: for<'de> Deserialize<'de>>() -> Types {
    let (shape, types) = (RefCell::new(Shape::Any), RefCell::default());
    T::deserialize(Asked { shape: &shape, types: &types })
        .map(drop)
        .expect("every type can be read from nothing");
    let mut types: Types = types.into_inner();
    types.values_mut().for_each(|fields| fields.sort_by_key(|(name, _)| *name));
    types
}

/// Times are strings as well, and this is valid for both.
const TEXT: &str = "1970-01-01T00:00:00Z";

#[derive(Clone, Copy)]
struct Asked<'a> {
    shape: &'a RefCell<Shape>,
    types: &'a RefCell<Types>,
}

impl Asked<'_> {
    fn is(self, shape: Shape) {
        self.shape.replace(shape);
    }
}

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let is_new = !self.types.borrow().contains_key(name);
        if is_new {
            self.types.borrow_mut().insert(name, Vec::new());
        }
        self.is(Shape::Struct(name));
        let mut rest = if is_new { fields } else { &[] }.iter();
        let mut found = Vec::new();
        let made =
            visitor.visit_map(Fields { asked: self, rest: &mut rest, current: "", found: &mut found })?;
        if is_new {
            self.types.borrow_mut().insert(name, found);
        }
        Ok(made)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let made = visitor.visit_newtype_struct(self)?;
        if name == "Quantity" {
            self.is(Shape::Quantity);
        }
        Ok(made)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let item = RefCell::new(Shape::Any);
        let made = visitor.visit_seq(One { asked: Asked { shape: &item, ..self }, left: 1 })?;
        self.is(Shape::List(Box::new(item.into_inner())));
        Ok(made)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let item = RefCell::new(Shape::Any);
        let made = visitor.visit_map(One { asked: Asked { shape: &item, ..self }, left: 1 })?;
        self.is(Shape::Map(Box::new(item.into_inner())));
        Ok(made)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.is(Shape::Text);
        visitor.visit_borrowed_str(TEXT)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.is(Shape::Bool);
        visitor.visit_bool(false)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.is(Shape::Number);
        visitor.visit_i32(0)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.is(Shape::Number);
        visitor.visit_i64(0)
    }

    /// Visits a number or a string, whichever the visitor accepts.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.is(Shape::Any);
        visitor.visit_i64(0)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

struct Fields<'a, 'f> {
    asked: Asked<'a>,
    rest: &'f mut std::slice::Iter<'static, &'static str>,
    current: &'static str,
    found: &'f mut Vec<(&'static str, Shape)>,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(name) = self.rest.next() else { return Ok(None) };
        self.current = name;
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let shape = RefCell::new(Shape::Any);
        let value = seed.deserialize(Asked { shape: &shape, ..self.asked })?;
        self.found.push((self.current, shape.into_inner()));
        Ok(value)
    }
}

/// A list or map with one item.
struct One<'a> {
    asked: Asked<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if std::mem::take(&mut self.left) == 0 { Ok(None) } else { seed.deserialize(self.asked).map(Some) }
    }
}

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if std::mem::take(&mut self.left) == 0 {
            return Ok(None);
        }
        seed.deserialize(BorrowedStrDeserializer::new("k")).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.asked)
    }
}
