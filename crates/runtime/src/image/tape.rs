//! A reader of tar streams that trusts nothing.
//!
//! The `tar` crate decodes the header fields, but the iteration over the entries is done here, for three reasons. The
//! crate reads extension headers into memory whatever their size, which a few compressed megabytes can turn into
//! gigabytes. It splits pax records at line feeds, which binary attributes contain. And where readers disagree about an
//! entry's length, one can be shown what another does not see: this reader decides as Go's does, with which images are
//! built and read everywhere.

use std::io::{self, Read};

use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// The limit on long names and pax records of one entry. Go's reader has the same limit.
const MAX_EXTENSION: u64 = 1 << 20;

/// A reader that can skip bytes, by reading them if there is no better way.
pub(crate) trait Skip: Read {
    /// Skips exactly this many bytes.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// One entry, with every extension applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    /// Seconds and nanoseconds since 1970.
    pub(crate) mtime: (i64, u32),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The offset of its data in the stream.
    pub(crate) offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File { size: u64 },
    Dir,
    Symlink(Vec<u8>),
    Hardlink(Vec<u8>),
    CharDevice { major: u32, minor: u32 },
    BlockDevice { major: u32, minor: u32 },
    Fifo,
}

/// The reason why a stream is not a tar archive, or is one that is refused.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The stream could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The stream ends in the middle of an entry.
    #[error("the archive ends in the middle of an entry")]
    Truncated,
    /// There is something other than a header where one should be.
    #[error("there is no valid tar header at byte {0}")]
    Header(u64),
    /// A name or an attribute list is larger than a megabyte.
    #[error("an extension header of {0} bytes is larger than {MAX_EXTENSION}")]
    Extension(u64),
    /// A pax record is not `length key=value`.
    #[error("a pax record at byte {0} is malformed")]
    Pax(u64),
    /// There are more entries than an image archive can have.
    #[error("the archive has more than {0} entries")]
    TooManyEntries(usize),
    /// The archive contains a sparse file or spans several volumes.
    #[error("entries of type {0:?} are not supported")]
    Unsupported(char),
}

/// A tar stream, positioned in some entry. Reading from it returns that entry's data.
#[derive(Debug)]
pub(crate) struct Tape<R> {
    inner: R,
    position: u64,
    /// What remains of the current entry: unread data, and the padding of its last block.
    remaining: u64,
    padding: u64,
    ended: bool,
}

/// What extension headers say about the entry after them.
#[derive(Debug, Default)]
struct Extensions {
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Pax,
}

#[derive(Debug, Default)]
struct Pax {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<(i64, u32)>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    sparse: bool,
}

// === impl Tape ===

impl<R: Skip> Tape<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, position: 0, remaining: 0, padding: 0, ended: false }
    }

    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// Moves to the next entry, skipping the rest of this one.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, TarError> {
        let mut extensions = Extensions::default();
        loop {
            let Some(header) = self.next_header()? else { return Ok(None) };
            let at = self.position - BLOCK as u64;
            let size = number(&header.as_old().size).ok_or(TarError::Header(at))?;
            match header.entry_type() {
                EntryType::GNULongName => extensions.long_path = Some(without_nul(self.extension(size)?)),
                EntryType::GNULongLink => extensions.long_link = Some(without_nul(self.extension(size)?)),
                EntryType::XHeader => {
                    let records = self.extension(size)?;
                    extensions.pax = parse_pax(&records).ok_or(TarError::Pax(at))?;
                }
                // Defaults for the rest of the archive. In images this is a comment at most, and all readers ignore it.
                EntryType::XGlobalHeader => self.enter(size),
                kind => return self.entry(&header, kind, extensions, at).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        kind: EntryType,
        extensions: Extensions,
        at: u64,
    ) -> Result<Entry, TarError> {
        let Extensions { long_path, long_link, pax } = extensions;
        let field = |bytes: &[u8]| number(bytes).ok_or(TarError::Header(at));
        if pax.sparse || kind == EntryType::GNUSparse {
            return Err(TarError::Unsupported('S'));
        }
        let path = pax.path.or(long_path).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = || {
            let short = || header.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
            pax.link.or(long_link).unwrap_or_else(short)
        };
        let device = || -> Result<(u32, u32), TarError> {
            let (major, minor) = match (header.as_ustar(), header.as_gnu()) {
                (Some(ustar), _) => (field(&ustar.dev_major)?, field(&ustar.dev_minor)?),
                (_, Some(gnu)) => (field(&gnu.dev_major)?, field(&gnu.dev_minor)?),
                _ => (0, 0),
            };
            let narrow = |number| u32::try_from(number).map_err(|_| TarError::Header(at));
            Ok((narrow(major)?, narrow(minor)?))
        };
        let kind = match kind {
            // In the old format, a directory is a file whose name ends in a slash.
            EntryType::Regular if path.ends_with(b"/") => EntryKind::Dir,
            EntryType::Regular | EntryType::Continuous => {
                let size = pax.size.map_or_else(|| field(&header.as_old().size), Ok)?;
                EntryKind::File { size }
            }
            EntryType::Directory => EntryKind::Dir,
            EntryType::Symlink => EntryKind::Symlink(link()),
            EntryType::Link => EntryKind::Hardlink(link()),
            EntryType::Char => device().map(|(major, minor)| EntryKind::CharDevice { major, minor })?,
            EntryType::Block => device().map(|(major, minor)| EntryKind::BlockDevice { major, minor })?,
            EntryType::Fifo => EntryKind::Fifo,
            other => return Err(TarError::Unsupported(char::from(other.as_byte()))),
        };
        // Entries other than files consist of a header only, whatever size they claim.
        let data = if let EntryKind::File { size } = kind { size } else { 0 };
        self.enter(data);
        Ok(Entry {
            path,
            kind,
            mode: field(&header.as_old().mode)? as u32 & 0o7777,
            uid: pax.uid.map_or_else(|| field(&header.as_old().uid), Ok)?,
            gid: pax.gid.map_or_else(|| field(&header.as_old().gid), Ok)?,
            mtime: match pax.mtime {
                Some(mtime) => mtime,
                None => (i64::try_from(field(&header.as_old().mtime)?).unwrap_or(0), 0),
            },
            xattrs: pax.xattrs,
            offset: self.position,
        })
    }

    /// Reads the next header; `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<Header>, TarError> {
        if self.ended {
            return Ok(None);
        }
        let left = self.remaining.checked_add(self.padding).ok_or(TarError::Truncated)?;
        if left > 0 {
            self.inner.skip(left).map_err(truncated)?;
            self.position = self.position.checked_add(left).ok_or(TarError::Truncated)?;
            (self.remaining, self.padding) = (0, 0);
        }
        let Some(block) = self.block()? else {
            self.ended = true;
            return Ok(None);
        };
        if block.iter().all(|&byte| byte == 0) {
            // The archive ends with two of them, or with one and the end of the stream.
            return match self.block()? {
                Some(second) if second.iter().any(|&byte| byte != 0) => {
                    Err(TarError::Header(self.position - BLOCK as u64))
                }
                _ => {
                    self.ended = true;
                    Ok(None)
                }
            };
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 = block[..148].iter().chain(&block[156..]).map(|&byte| u32::from(byte)).sum();
        if number(&header.as_old().cksum) != Some(u64::from(sum + 8 * u32::from(b' '))) {
            return Err(TarError::Header(self.position - BLOCK as u64));
        }
        Ok(Some(header))
    }

    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, TarError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.inner.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(TarError::Truncated),
                Ok(len) => filled += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.position += BLOCK as u64;
        Ok(Some(block))
    }

    fn enter(&mut self, size: u64) {
        self.remaining = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, TarError> {
        if size > MAX_EXTENSION {
            return Err(TarError::Extension(size));
        }
        self.enter(size);
        let mut data = Vec::new();
        self.read_to_end(&mut data).map_err(truncated)?;
        Ok(data)
    }
}

impl<R: Skip> Read for Tape<R> {
    /// Reads data of the current entry. If the stream ends before the data does, that is an error.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let len = self.inner.read(&mut buffer[..want])?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= len as u64;
        self.position += len as u64;
        Ok(len)
    }
}

fn truncated(error: io::Error) -> TarError {
    if error.kind() == io::ErrorKind::UnexpectedEof { TarError::Truncated } else { TarError::Io(error) }
}

fn without_nul(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|&byte| byte == 0) {
        name.truncate(end);
    }
    name
}

/// Parses a numeric field of a header: octal digits, possibly surrounded by blanks (none at all means zero), or binary
/// if the first bit is set. Negative numbers, which only times may be, count as zero.
fn number(field: &[u8]) -> Option<u64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        if first & 0x40 != 0 {
            return Some(0);
        }
        let start = u64::from(first & 0x3f);
        return rest
            .iter()
            .try_fold(start, |value, &byte| value.checked_mul(256).map(|value| value | u64::from(byte)));
    }
    let blank = |byte: &u8| matches!(byte, b' ' | 0);
    let digits = field.iter().skip_while(|byte| blank(byte)).take_while(|byte| !blank(byte));
    digits.copied().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'7' => value.checked_mul(8).map(|value| value + u64::from(digit - b'0')),
        _ => None,
    })
}

/// Parses `length key=value\n` records, in which the length counts the whole record.
fn parse_pax(mut records: &[u8]) -> Option<Pax> {
    let mut pax = Pax::default();
    while !records.is_empty() {
        let space = records.iter().position(|&byte| byte == b' ')?;
        let len: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
        let record = records.get(space + 1..len)?.strip_suffix(b"\n")?;
        records = &records[len..];
        let equals = record.iter().position(|&byte| byte == b'=')?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        let number = || std::str::from_utf8(value).ok()?.parse().ok();
        match key {
            b"path" => pax.path = Some(value.to_vec()),
            b"linkpath" => pax.link = Some(value.to_vec()),
            b"size" => pax.size = Some(number()?),
            b"uid" => pax.uid = Some(number()?),
            b"gid" => pax.gid = Some(number()?),
            b"mtime" => pax.mtime = Some(parse_time(std::str::from_utf8(value).ok()?)?),
            _ if key.starts_with(b"GNU.sparse.") => pax.sparse = true,
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    pax.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
    }
    Some(pax)
}

/// Parses seconds with an optional fraction, such as `-1.5`.
fn parse_time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = &fraction[..fraction.len().min(9)];
    let nanos =
        if digits.is_empty() { 0 } else { digits.parse::<u32>().ok()? * 10_u32.pow(9 - digits.len() as u32) };
    if whole.starts_with('-') && nanos > 0 {
        Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos))
    } else {
        Some((seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Skip for &[u8] {
        fn skip(&mut self, bytes: u64) -> io::Result<()> {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            *self = self.get(bytes..).ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(())
        }
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<(Entry, Vec<u8>)>, TarError> {
        let mut tape = Tape::new(bytes);
        let mut entries = Vec::new();
        while let Some(entry) = tape.next_entry()? {
            let mut data = Vec::new();
            tape.read_to_end(&mut data)?;
            entries.push((entry, data));
        }
        Ok(entries)
    }

    fn builder() -> tar::Builder<Vec<u8>> {
        tar::Builder::new(Vec::new())
    }

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(7);
        header
    }

    #[test]
    fn files_long_names_links_and_directories_come_back() {
        let mut tar = builder();
        let long = "d/".repeat(100) + "file";
        tar.append_data(&mut header(EntryType::Regular, 5), &long, &b"hello"[..]).unwrap();
        tar.append_link(&mut header(EntryType::Symlink, 0), "link", "t/".repeat(80)).unwrap();
        tar.append_link(&mut header(EntryType::Link, 0), "hard", "some").unwrap();
        tar.append_data(&mut header(EntryType::Directory, 0), "dir/", &b""[..]).unwrap();
        let entries = read_all(&tar.into_inner().unwrap()).unwrap();
        let paths: Vec<_> = entries.iter().map(|(entry, _)| String::from_utf8_lossy(&entry.path)).collect();
        assert_eq!(paths, [long.as_str(), "link", "hard", "dir/"]);
        assert_eq!(entries[0].1, b"hello");
        assert_eq!(entries[0].0.mtime, (7, 0));
        assert_eq!(entries[1].0.kind, EntryKind::Symlink("t/".repeat(80).into_bytes()));
        assert_eq!(entries[2].0.kind, EntryKind::Hardlink(b"some".to_vec()));
        assert_eq!(entries[3].0.kind, EntryKind::Dir);
    }

    #[test]
    fn pax_records_override_the_header_and_may_hold_any_bytes() {
        let mut tar = builder();
        let value = b"a\nb=c\0d".as_slice();
        tar.append_pax_extensions([
            ("path", b"real/name".as_slice()),
            ("uid", b"4000000"),
            ("mtime", b"12.5"),
            ("SCHILY.xattr.user.x", value),
            ("comment", b"whatever"),
        ])
        .unwrap();
        tar.append_data(&mut header(EntryType::Regular, 2), "other", &b"hi"[..]).unwrap();
        let entries = read_all(&tar.into_inner().unwrap()).unwrap();
        let (entry, data) = &entries[0];
        assert_eq!(entry.path, b"real/name");
        assert_eq!((entry.uid, entry.mtime), (4_000_000, (12, 500_000_000)));
        assert_eq!(entry.xattrs, [(b"user.x".to_vec(), value.to_vec())]);
        assert_eq!(data, b"hi");
    }

    #[test]
    fn a_pax_size_decides_where_the_next_entry_begins() {
        // A reader that believed the header would see a second entry inside the data of the first.
        let mut inner = builder();
        inner.append_data(&mut header(EntryType::Regular, 0), "smuggled", &b""[..]).unwrap();
        let inner = inner.into_inner().unwrap();
        let mut tar = builder();
        tar.append_pax_extensions([("size", inner.len().to_string().as_bytes())]).unwrap();
        let mut bytes = tar.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        let mut small = header(EntryType::Regular, 0);
        small.set_path("outer").unwrap();
        small.set_cksum();
        bytes.extend_from_slice(small.as_bytes());
        bytes.extend_from_slice(&inner);
        bytes.extend_from_slice(&[0; 1024]);
        let entries = read_all(&bytes).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].1.len(), inner.len());
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let mut tar = builder();
        tar.append_data(&mut header(EntryType::GNUSparse, 0), "x", &b""[..]).unwrap();
        let error = read_all(&tar.into_inner().unwrap()).unwrap_err();
        assert!(matches!(error, TarError::Unsupported('S')), "{error}");

        let mut bomb = header(EntryType::XHeader, 8 << 30);
        bomb.set_path("x").unwrap();
        bomb.set_cksum();
        let error = read_all(bomb.as_bytes()).unwrap_err();
        assert!(matches!(error, TarError::Extension(_)), "{error}");
    }

    #[test]
    fn broken_archives_are_errors() {
        let mut tar = builder();
        tar.append_data(&mut header(EntryType::Regular, 600), "x", &[1_u8; 600][..]).unwrap();
        let whole = tar.into_inner().unwrap();
        for cut in [1, 511, 513, 1000, 1111] {
            assert!(read_all(&whole[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(read_all(&whole[..1536]).unwrap().len(), 1, "the end marker may be missing");
        let mut flipped = whole.clone();
        flipped[0] ^= 1;
        assert!(matches!(read_all(&flipped), Err(TarError::Header(0))));
        assert!(read_all(&[]).unwrap().is_empty());
    }

    #[test]
    fn header_numbers() {
        for (field, value) in [
            (b"0000644\0".as_slice(), Some(0o644)),
            (b" 644 \0\0\0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"\x80\0\0\0\0\0\x01\0", Some(256)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", Some(0)),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"0000648\0", None),
            (b"-0000001", None),
            (b"", None),
        ] {
            assert_eq!(number(field), value, "{field:?}");
        }
    }

    #[test]
    fn pax_times() {
        for (text, time) in [
            ("0", Some((0, 0))),
            ("-1.5", Some((-2, 500_000_000))),
            ("1.123456789123", Some((1, 123_456_789))),
            ("1.", Some((1, 0))),
            ("1.x", None),
            ("", None),
            ("99999999999999999999", None),
            ("-9223372036854775808.5", None),
        ] {
            assert_eq!(parse_time(text), time, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..4096)) {
            let _ = read_all(&bytes);
            let _ = parse_pax(&bytes);
        }

        #[test]
        fn an_archive_with_changed_bytes_never_panics(
            changes in proptest::collection::vec((0_usize..4096, proptest::num::u8::ANY), 1..8),
            fix in proptest::bool::ANY,
        ) {
            let mut tar = builder();
            tar.append_pax_extensions([("SCHILY.xattr.user.x", b"value".as_slice())]).unwrap();
            tar.append_data(&mut header(EntryType::Regular, 600), "a".repeat(150), &[1_u8; 600][..]).unwrap();
            let mut bytes = tar.into_inner().unwrap();
            let len = bytes.len();
            for (at, byte) in changes {
                bytes[at % len] = byte;
            }
            if fix {
                // With a corrected checksum, even a damaged header is parsed field by field.
                for block in bytes.chunks_exact_mut(BLOCK) {
                    if &block[257..262] == b"ustar" {
                        block[148..156].fill(b' ');
                        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
                        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
                    }
                }
            }
            let _ = read_all(&bytes);
        }
    }
}
