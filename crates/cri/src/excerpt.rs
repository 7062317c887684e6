//! Reads the answer to an `ExecSync` as it arrives, and keeps only the beginning of each output stream: what nobody
//! will look at is never in memory, however long it is.

use crate::intake::{BadAnswer, PREFIX, Take, length_of};
use crate::v1;
use crate::wire::{WireError, varint};

/// The most bytes that come before the bytes of a field, or in place of them: two integers.
const LONGEST_HEAD: usize = 20;

/// A number that no field has.
const NO_FIELD: u32 = 0;

/// An answer that is being received.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    answer: v1::ExecSyncResponse,
    /// How many bytes of each output stream to keep.
    most: usize,
    /// The part of a prefix, or of a field's head, that has arrived.
    pending: Vec<u8>,
    /// How many bytes of the message have yet to arrive; `None` before its prefix has.
    missing: Option<usize>,
    /// The number of the current field, and how many of its bytes have yet to arrive.
    field: Option<(u32, usize)>,
}

/// The beginning of a field.
enum Head {
    /// A field number, and the length of its bytes.
    Bytes(u32, usize),
    /// A field number, and its whole integer.
    Number(u32, u64),
    /// More has to arrive.
    Unfinished,
}

impl Excerpt {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Returns the answer, once it is complete.
    pub(crate) fn finish(self) -> Result<v1::ExecSyncResponse, BadAnswer> {
        let is_whole = self.missing == Some(0) && self.field.is_none() && self.pending.is_empty();
        if is_whole { Ok(self.answer) } else { Err(BadAnswer::Truncated) }
    }

    fn take_message(&mut self, mut piece: &[u8]) -> Result<(), BadAnswer> {
        while let Some(&byte) = piece.first() {
            if let Some((number, left)) = self.field {
                let (now, later) = piece.split_at(left.min(piece.len()));
                self.keep(number, now);
                self.field = (left > now.len()).then(|| (number, left - now.len()));
                piece = later;
                continue;
            }
            self.pending.push(byte);
            piece = &piece[1..];
            match head(&self.pending).map_err(|_| BadAnswer::Truncated)? {
                Head::Unfinished if self.pending.len() < LONGEST_HEAD => continue,
                Head::Unfinished => return Err(BadAnswer::Truncated),
                Head::Bytes(number, length) => self.field = (length > 0).then_some((number, length)),
                // As protobuf specifies: an integer that is too large is truncated to its lower half.
                Head::Number(3, value) => self.answer.exit_code = value as i32,
                Head::Number(..) => {}
            }
            self.pending.clear();
        }
        Ok(())
    }

    fn keep(&mut self, number: u32, bytes: &[u8]) {
        let stream = match number {
            1 => &mut self.answer.stdout,
            2 => &mut self.answer.stderr,
            _ => return,
        };
        let room = self.most.saturating_sub(stream.len());
        stream.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Take for Excerpt {
    fn take(&mut self, mut piece: &[u8]) -> Result<(), BadAnswer> {
        while !piece.is_empty() {
            if let Some(missing @ 1..) = self.missing {
                let (now, later) = piece.split_at(missing.min(piece.len()));
                self.missing = Some(missing - now.len());
                self.take_message(now)?;
                piece = later;
                continue;
            }
            let (now, later) = piece.split_at(piece.len().min(PREFIX - self.pending.len()));
            self.pending.extend_from_slice(now);
            piece = later;
            if let Ok(prefix) = <[u8; PREFIX]>::try_from(self.pending.as_slice()) {
                self.pending.clear();
                self.missing = Some(length_of(prefix)?);
            }
        }
        Ok(())
    }
}

fn head(bytes: &[u8]) -> Result<Head, WireError<'_>> {
    let mut rest = bytes;
    let unfinished = |error| match error {
        WireError::Truncated { .. } => Ok(Head::Unfinished),
        other @ WireError::NotAField => Err(other),
    };
    let key = match varint(&mut rest) {
        Ok(key) => key,
        Err(error) => return unfinished(error),
    };
    let number = u32::try_from(key >> 3).map_err(|_| WireError::NotAField)?;
    let is_integer = match key & 7 {
        0 => true,
        2 => false,
        1 => return Ok(Head::Bytes(NO_FIELD, 8)),
        5 => return Ok(Head::Bytes(NO_FIELD, 4)),
        _ => return Err(WireError::NotAField),
    };
    match varint(&mut rest) {
        Ok(value) if is_integer => Ok(Head::Number(number, value)),
        Ok(length) => Ok(Head::Bytes(number, usize::try_from(length).unwrap_or(usize::MAX))),
        Err(error) => unfinished(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    fn read(bytes: &[u8], most: usize, pieces: &[usize]) -> Result<v1::ExecSyncResponse, BadAnswer> {
        let mut excerpt = Excerpt::new(most);
        let mut rest = bytes;
        for size in pieces {
            let (piece, later) = rest.split_at((*size).min(rest.len()));
            excerpt.take(piece)?;
            rest = later;
        }
        excerpt.take(rest)?;
        excerpt.finish()
    }

    #[test]
    fn fields_that_nobody_knows_are_passed_over() {
        let mut message = vec![0x08 | 1 << 5, 0x96, 0x01]; // 5: 150
        message.extend([0x31, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4]); // 6 and 7: numbers of fixed size
        message.extend(
            v1::ExecSyncResponse { stdout: b"out".to_vec(), stderr: Vec::new(), exit_code: -1 }
                .encode_to_vec(),
        );
        message.extend([0x42, 2, b'x', b'y']); // 8: "xy"
        let answer = read(&framed(&message), 100, &[]).unwrap();
        assert_eq!((answer.stdout.as_slice(), answer.exit_code), (&b"out"[..], -1));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole =
            framed(&v1::ExecSyncResponse { stdout: b"out".to_vec(), ..Default::default() }.encode_to_vec());
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], 9, &[]), Err(BadAnswer::Truncated), "{end}");
        }
        assert_eq!(read(&[1, 0, 0, 0, 0], 9, &[]), Err(BadAnswer::Flags(1)));
        for message in [&[0x0b][..], &[0x80; 30], &[0x0a, 9, b'x']] {
            assert_eq!(read(&framed(message), 9, &[]), Err(BadAnswer::Truncated), "{message:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_beginning_of_the_whole_wherever_the_answer_is_cut(
            stdout in vec(any::<u8>(), 0..300),
            stderr in vec(any::<u8>(), 0..300),
            exit_code in any::<i32>(),
            most in 0usize..350,
            pieces in vec(1usize..40, 0..20),
        ) {
            let whole = v1::ExecSyncResponse { stdout, stderr, exit_code };
            let mut wanted = whole.clone();
            wanted.stdout.truncate(most);
            wanted.stderr.truncate(most);
            prop_assert_eq!(read(&framed(&whole.encode_to_vec()), most, &pieces), Ok(wanted));
        }

        #[test]
        fn no_bytes_upset_it(bytes in vec(any::<u8>(), 0..200), pieces in vec(1usize..9, 0..20)) {
            let _ = read(&bytes, 10, &pieces);
            let _ = read(&framed(&bytes), 10, &pieces);
        }
    }
}
