//! Streams into the store: decompressed, counted, hashed, and limited in length.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use super::digest::{Digest, Hasher};
use super::tape::Skip;

const BUFFER: usize = 64 * 1024;

/// The compression of a stream, detected from its first bytes, since media types lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The error of a stream that is longer than its limit. It travels inside an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} bytes when decompressed")]
pub struct OverLimit {
    /// The limit in bytes.
    pub limit: u64,
}

/// Returns the limit that was exceeded, if that is what this error is about.
pub(crate) fn over_limit(error: &io::Error) -> Option<OverLimit> {
    error.get_ref()?.downcast_ref().copied()
}

impl Compression {
    pub(crate) fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Decompresses a stream, whatever its compression.
pub(crate) fn decompress<'a>(mut reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut start)?;
    let compression = Compression::of(&start);
    let whole = BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(reader));
    Ok(match compression {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => {
            Box::new(ZstdFrames { reader: whole, decoder: FrameDecoder::new(), in_frame: false })
        }
    })
}

/// The frames of a zstd stream, one after another. Builders write several, and skippable ones with metadata.
struct ZstdFrames<R> {
    reader: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    /// Moves to the next frame with content. Returns false at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.reader.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.reader) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => discard(&mut self.reader, u64::from(length))?,
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
            }
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBytes;
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame {
                if !self.next_frame()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.reader, UptoBytes(buffer.len()))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            }
            let len = self.decoder.read(buffer)?;
            if len > 0 {
                return Ok(len);
            }
            self.in_frame = false;
        }
    }
}

/// A reader that computes the digest and length of what passes through it.
pub(crate) struct Hashing<R> {
    inner: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::default(), bytes: 0 }
    }

    /// Reads to the end, and returns the digest and length of the whole stream.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.hasher.finish(), self.bytes))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..len]);
        self.bytes += len as u64;
        Ok(len)
    }
}

impl<R: Read> Skip for Hashing<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        discard(self, bytes)
    }
}

impl<S: Skip + ?Sized> Skip for &mut S {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        (**self).skip(bytes)
    }
}

/// A reader of at most this many bytes. One more is an error rather than the end.
pub(crate) struct Capped<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Capped<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        Self { inner, left: limit, limit }
    }
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(len as u64)
            .ok_or_else(|| io::Error::other(OverLimit { limit: self.limit }))?;
        Ok(len)
    }
}

/// Reads and discards exactly this many bytes.
fn discard(reader: impl Read, bytes: u64) -> io::Result<()> {
    let passed = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if passed == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use super::*;

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(bytes)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_compression_is_recognised() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        assert_eq!(read(&text).unwrap(), text);
        assert_eq!(read(&gzip(&text)).unwrap(), text);
        assert_eq!(read(&zstd(&text)).unwrap(), text);
        for short in [&b""[..], b"a", b"ab", b"abc"] {
            assert_eq!(read(short).unwrap(), short);
        }
    }

    #[test]
    fn several_members_and_notes_between_them_are_one_stream() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&two).unwrap(), b"one two");
        let note = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frames = [note.clone(), zstd(b"one "), note.clone(), zstd(b""), zstd(b"two"), note].concat();
        assert_eq!(read(&frames).unwrap(), b"one two");
    }

    #[test]
    fn damaged_streams_are_errors() {
        let text = b"some text that is long enough".repeat(100);
        for packed in [gzip(&text), zstd(&text)] {
            assert!(read(&packed[..packed.len() / 2]).is_err());
            assert!(read(&packed[..6]).is_err());
        }
        assert!(read(&[0x50, 0x2a, 0x4d, 0x18, 255, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn a_cap_is_exact_and_is_recognised() {
        let mut out = Vec::new();
        assert_eq!(Capped::new(&b"12345"[..], 5).read_to_end(&mut out).unwrap(), 5);
        let error = Capped::new(&b"12345"[..], 4).read_to_end(&mut out).unwrap_err();
        assert_eq!(over_limit(&error), Some(OverLimit { limit: 4 }));
        assert_eq!(over_limit(&io::Error::other("x")), None);
    }

    #[test]
    fn the_digest_is_of_everything_even_what_nobody_read() {
        let mut hashing = Hashing::new(&b"hello"[..]);
        hashing.skip(2).unwrap();
        assert_eq!(hashing.finish().unwrap(), (Digest::of(b"hello"), 5));
        assert!(Hashing::new(&b"hello"[..]).skip(6).is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_streams_never_panic(
            kind in 0_usize..4,
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..512),
        ) {
            let magic: [&[u8]; 4] = [&[], &[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]];
            let stream = [magic[kind], &bytes].concat();
            let mut out = Vec::new();
            let _ = decompress(&stream[..]).and_then(|plain| Capped::new(plain, 1 << 20).read_to_end(&mut out));
        }

        #[test]
        fn a_damaged_zstd_stream_never_panics(at in 0_usize..400, byte in proptest::num::u8::ANY) {
            let text: Vec<u8> = (0..2000_u32).flat_map(|n| (n % 97).to_le_bytes()).collect();
            let mut packed = zstd(&text);
            let len = packed.len();
            packed[at % len] = byte;
            let _ = read(&packed);
        }
    }
}
