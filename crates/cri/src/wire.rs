//! Iterates over the fields of an encoded protobuf message, without copying and without trusting it.
//!
//! Every length is checked; no input can cause a panic or a read past its end.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer, boolean or enum.
    Varint(u64),
    /// A string, bytes or message.
    Bytes(&'a [u8]),
    /// A number of four or eight bytes. None of the messages that we read has one that matters.
    Fixed,
}

/// Why no more fields of a message can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError<'a> {
    /// The message ends in the middle of a field.
    Truncated {
        /// At least this many bytes are missing from the field.
        missing: usize,
        /// For a field of bytes: its number, and those of its bytes that are there.
        start: Option<(u32, &'a [u8])>,
    },
    /// A field number or wire type that the protocol does not have, or an integer that is too large. Groups, which are
    /// obsolete, count as such.
    NotAField,
}

/// The fields of a message, in order of appearance. The iterator ends with the message, or before the first broken
/// field; [`Fields::error`] says which.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    error: Option<WireError<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message, error: None }
    }

    /// The part that has not been read yet; after an error, it starts with the broken field.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Why the iteration ended, if not because the message did.
    pub(crate) fn error(&self) -> Option<WireError<'a>> {
        self.error
    }

    /// Reads a field whose key fits into one byte, and so does its length or number: nearly all are like that.
    #[inline]
    fn short(&mut self) -> Option<(u32, Value<'a>)> {
        let [key @ 0x08..0x80, next @ 0..0x80, tail @ ..] = self.rest else { return None };
        let (value, rest) = match key & 7 {
            0 => (Value::Varint(u64::from(*next)), tail),
            2 => {
                let (bytes, rest) = tail.split_at_checked(usize::from(*next))?;
                (Value::Bytes(bytes), rest)
            }
            _ => return None,
        };
        self.rest = rest;
        Some((u32::from(key >> 3), value))
    }

    fn any(&mut self) -> Option<(u32, Value<'a>)> {
        if self.rest.is_empty() || self.error.is_some() {
            return None;
        }
        let mut rest = self.rest;
        match field(&mut rest) {
            Ok(field) => {
                self.rest = rest;
                Some(field)
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // A broken field is never short, so nothing is read after an error.
        self.short().or_else(|| self.any())
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), WireError<'a>> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).ok().filter(|number| *number != 0).ok_or(WireError::NotAField)?;
    let value = match key & 7 {
        0 => Value::Varint(varint(rest)?),
        1 => split(rest, 8, None).map(|_| Value::Fixed)?,
        2 => {
            let length = usize::try_from(varint(rest)?).unwrap_or(usize::MAX);
            Value::Bytes(split(rest, length, Some(number))?)
        }
        5 => split(rest, 4, None).map(|_| Value::Fixed)?,
        _ => return Err(WireError::NotAField),
    };
    Ok((number, value))
}

fn split<'a>(rest: &mut &'a [u8], length: usize, number: Option<u32>) -> Result<&'a [u8], WireError<'a>> {
    let Some((head, tail)) = rest.split_at_checked(length) else {
        let start = number.map(|number| (number, *rest));
        return Err(WireError::Truncated { missing: length - rest.len(), start });
    };
    *rest = tail;
    Ok(head)
}

/// Reads an integer of up to ten bytes, with seven bits in each, lowest first.
pub(crate) fn varint<'a>(rest: &mut &'a [u8]) -> Result<u64, WireError<'a>> {
    let mut value = 0;
    for index in 0..10 {
        let byte = *rest.get(index).ok_or(WireError::Truncated { missing: 1, start: None })?;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // The tenth byte has room for one bit.
            if index == 9 && byte > 1 {
                return Err(WireError::NotAField);
            }
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(WireError::NotAField)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(message: &[u8]) -> Vec<Result<(u32, Value<'_>), WireError<'_>>> {
        let mut fields = Fields::new(message);
        let mut walked: Vec<_> = fields.by_ref().map(Ok).collect();
        walked.extend(fields.error().map(Err));
        walked
    }

    #[test]
    fn fields_of_every_wire_type_are_walked() {
        let message = [
            &[0x08, 0x96, 0x01][..],               // 1: 150
            &[0x12, 0x03, b'a', b'b', b'c'],       // 2: "abc"
            &[0x1d, 1, 2, 3, 4],                   // 3: fixed32
            &[0x21, 1, 2, 3, 4, 5, 6, 7, 8],       // 4: fixed64
            &[0xf8, 0xff, 0xff, 0xff, 0x0f, 0x00], // the largest number: 0
        ]
        .concat();
        let wanted = [
            Ok((1, Value::Varint(150))),
            Ok((2, Value::Bytes(b"abc"))),
            Ok((3, Value::Fixed)),
            Ok((4, Value::Fixed)),
            Ok((0x1fff_ffff, Value::Varint(0))),
        ];
        assert_eq!(walk(&message), wanted);
    }

    #[test]
    fn what_is_not_a_field_ends_the_walk() {
        let negative = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(walk(&negative), [Ok((1, Value::Varint(u64::MAX)))]);
        let cases: [(&str, &[u8], WireError<'_>); 9] = [
            ("number zero", &[0x00, 0x01], WireError::NotAField),
            ("start of a group", &[0x0b], WireError::NotAField),
            ("end of a group", &[0x0c], WireError::NotAField),
            ("no such type", &[0x0e], WireError::NotAField),
            (
                "an integer of 65 bits",
                &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
                WireError::NotAField,
            ),
            ("an integer without end", &[0x80; 20], WireError::NotAField),
            ("half an integer", &[0x08, 0x80], WireError::Truncated { missing: 1, start: None }),
            ("half a number", &[0x1d, 1, 2], WireError::Truncated { missing: 2, start: None }),
            ("half a text", &[0x12, 4, b'a'], WireError::Truncated { missing: 3, start: Some((2, b"a")) }),
        ];
        for (what, message, error) in cases {
            let good = [0x08, 0x01];
            let walked = [&good, message, &good].concat();
            let mut fields = Fields::new(&walked);
            assert_eq!(fields.next(), Some((1, Value::Varint(1))), "{what}");
            match error {
                WireError::NotAField => {
                    assert_eq!((fields.next(), fields.error()), (None, Some(error)), "{what}");
                }
                WireError::Truncated { .. } => {
                    let walked = [&good, message].concat();
                    assert_eq!(walk(&walked)[1], Err(error), "{what}");
                    continue;
                }
            }
            assert_eq!(fields.rest().len(), message.len() + good.len(), "{what}: the rest starts with it");
            assert_eq!(fields.next(), None, "{what}: nothing is believed after an error");
        }
    }

    proptest! {
        #[test]
        fn no_input_upsets_it(message in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut fields = Fields::new(&message);
            let walked = (&mut fields).count();
            prop_assert!(walked <= message.len());
            prop_assert!(fields.rest().len() <= message.len());
        }

        #[test]
        fn a_cut_never_changes_what_comes_before_it(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut message = Vec::new();
            for text in &texts {
                prost::encoding::bytes::encode(7, text, &mut message);
            }
            let cut = cut.index(message.len());
            let whole = walk(&message);
            let part = walk(&message[..cut]);
            let good = part.iter().take_while(|field| field.is_ok()).count();
            prop_assert_eq!(&part[..good], &whole[..good]);
            prop_assert!(part.len() - good <= 1);
        }
    }
}
