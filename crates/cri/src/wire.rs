//! A walk over the fields of an encoded protobuf message, without copying and without trust.
//!
//! Every length is checked; no input can make it panic or read past its end.

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// An integer, boolean or enum.
    Varint(u64),
    /// A string, bytes or message.
    Bytes(&'a [u8]),
    /// Four bytes of a fixed-size number.
    Fixed32,
    /// Eight bytes of a fixed-size number.
    Fixed64,
}

/// Why a message cannot be walked any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError<'a> {
    /// The message ends in the middle of a field.
    #[error("cut off in the middle of a field")]
    Truncated {
        /// The field and what is there of its bytes, if it has got that far.
        field: Option<(u32, &'a [u8])>,
    },
    /// A field number or wire type that the protocol does not have.
    #[error("not a field")]
    NotAField,
}

/// The fields of a message, in order of appearance. Ends after the first error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), WireError<'a>> {
        let truncated = WireError::Truncated { field: None };
        let key = self.varint()?;
        let number =
            u32::try_from(key >> 3).ok().filter(|number| *number != 0).ok_or(WireError::NotAField)?;
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.split(8).map(|_| Value::Fixed64).ok_or(truncated)?,
            2 => {
                let length = self.varint()?;
                let whole = usize::try_from(length).ok().and_then(|length| self.split(length));
                Value::Bytes(whole.ok_or(WireError::Truncated { field: Some((number, self.rest)) })?)
            }
            5 => self.split(4).map(|_| Value::Fixed32).ok_or(truncated)?,
            _ => return Err(WireError::NotAField),
        };
        Ok((number, value))
    }

    fn split(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    fn varint(&mut self) -> Result<u64, WireError<'a>> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                if index == 9 && *byte > 1 {
                    return Err(WireError::NotAField);
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { WireError::Truncated { field: None } } else { WireError::NotAField })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}
