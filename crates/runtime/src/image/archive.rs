//! An image archive as a set of named blobs that are read in place. Nothing is ever extracted under its own name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::files;
use super::limits::Limits;
use super::rules::Place;
use super::streams::{Capped, Compression, decompress};
use super::tape::{EntryKind, Skip, Tape, TarError};

/// How many blobs and links an archive may list.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 16;
const MAX_NAME: usize = 512;
const SPACE_CHECK_BYTES: u64 = 32 << 20;
/// How many links in a row are followed.
const MAX_HOPS: usize = 8;

#[derive(Debug)]
pub(crate) struct Archive {
    file: File,
    entries: BTreeMap<String, Blob>,
}

#[derive(Clone, Debug)]
enum Blob {
    Data {
        offset: u64,
        len: u64,
    },
    /// The same as another entry: older archives name a layer once for each image.
    SameAs(String),
}

/// One blob of the archive, read from its beginning.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    file: &'a File,
    offset: u64,
    left: u64,
}

struct Seekable(BufReader<File>);

impl Archive {
    /// Lists the contents of the archive. A compressed one is first decompressed into this directory.
    pub(crate) fn open(mut file: File, scratch: &Path, limits: &Limits) -> Result<Self, TarError> {
        let mut start = [0; 4];
        let len = read_up_to(&mut file, &mut start)?;
        let seekable = file.seek(SeekFrom::Start(0)).is_ok();
        let compression = Compression::of(&start[..len]);
        let file = if compression == Compression::None && seekable {
            file
        } else {
            let rest: Box<dyn Read> = if seekable {
                Box::new(file)
            } else {
                Box::new(io::Cursor::new(start).take(len as u64).chain(file))
            };
            spool(rest, scratch, limits)?
        };
        let mut tape = Tape::new(Seekable(BufReader::new(file)));
        let mut entries = BTreeMap::new();
        while let Some(entry) = tape.next_entry()? {
            let Some(name) = normal(&entry.path) else { continue };
            let blob = match entry.kind {
                EntryKind::File { size } => Blob::Data { offset: entry.offset, len: size },
                EntryKind::Hardlink(target) => match normal(&target) {
                    Some(target) => Blob::SameAs(target),
                    None => continue,
                },
                EntryKind::Symlink(target) => match beside(&name, &target) {
                    Some(target) => Blob::SameAs(target),
                    None => continue,
                },
                EntryKind::Dir
                | EntryKind::Fifo
                | EntryKind::CharDevice { .. }
                | EntryKind::BlockDevice { .. } => continue,
            };
            entries.insert(name, blob);
            if entries.len() > MAX_ENTRIES {
                return Err(TarError::TooManyEntries(MAX_ENTRIES));
            }
        }
        let file = tape.into_inner().0.into_inner();
        Ok(Self { file, entries })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns a reader for the blob of this name, and its length.
    pub(crate) fn blob(&self, name: &str) -> Option<(Section<'_>, u64)> {
        let (offset, len) = self.find(name)?;
        Some((Section { file: &self.file, offset, left: len }, len))
    }

    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = normal(name.as_bytes())?;
        for _ in 0..MAX_HOPS {
            match self.entries.get(&name)? {
                Blob::Data { offset, len } => return Some((*offset, *len)),
                Blob::SameAs(other) => name.clone_from(other),
            }
        }
        None
    }
}

/// Decompresses this stream into an unnamed file.
fn spool(stream: impl Read, scratch: &Path, limits: &Limits) -> io::Result<File> {
    let path = scratch.join("archive.tar");
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    let mut plain = Capped::new(decompress(stream)?, limits.max_archive_bytes);
    // In chunks, to notice early that the disk is filling up.
    while io::copy(&mut plain.by_ref().take(SPACE_CHECK_BYTES), &mut file)? > 0 {
        if files::free_bytes(&file)? < limits.min_free_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(len) => filled += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Normalises a name; `None` for one that no image archive uses.
fn normal(path: &[u8]) -> Option<String> {
    if path.len() > MAX_NAME {
        return None;
    }
    let place = Place::parse(path, MAX_DEPTH).ok()?;
    let mut parts = place.parents;
    parts.push(place.name?.into_bytes());
    String::from_utf8(parts.join(&b'/')).ok()
}

/// Resolves a link of this name: `a/layer.tar -> ../b/layer.tar` is `b/layer.tar`.
fn beside(name: &str, target: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(target).ok()?;
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { name.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    normal(parts.join("/").as_bytes())
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let len = self.file.read_at(&mut buffer[..want], self.offset)?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += len as u64;
        self.left -= len as u64;
        Ok(len)
    }
}

impl Read for Seekable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Skip for Seekable {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        // A seek beyond the end succeeds, so the last byte is read to check that it exists.
        let Some(most) = bytes.checked_sub(1) else { return Ok(()) };
        let most = i64::try_from(most).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        self.0.seek_relative(most).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        self.0.read_exact(&mut [0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::streams::tests::{gzip, zstd};

    fn open(bytes: &[u8]) -> Result<Archive, TarError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, bytes).unwrap();
        let archive = Archive::open(File::open(path).unwrap(), dir.path(), &Limits::default());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        archive
    }

    fn sample() -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, data) in [("./a/layer.tar", "one"), ("b/json", &"two".repeat(400))] {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            tar.append_data(&mut header, path, data.as_bytes()).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "b/layer.tar", "../a/layer.tar").unwrap();
        tar.append_link(&mut header, "loop", "loop").unwrap();
        tar.append_link(&mut header, "out", "../../etc/passwd").unwrap();
        tar.into_inner().unwrap()
    }

    fn read(archive: &Archive, name: &str) -> Option<String> {
        let (mut section, len) = archive.blob(name)?;
        let mut text = String::new();
        section.read_to_string(&mut text).unwrap();
        assert_eq!(text.len() as u64, len);
        Some(text)
    }

    #[test]
    fn blobs_are_read_in_place_however_the_archive_is_compressed() {
        for bytes in [sample(), gzip(&sample()), zstd(&sample())] {
            let archive = open(&bytes).unwrap();
            assert_eq!(read(&archive, "a/layer.tar").unwrap(), "one");
            assert_eq!(read(&archive, "./b/json").unwrap(), "two".repeat(400));
            assert_eq!(read(&archive, "b/layer.tar").unwrap(), "one", "through a link");
            for name in ["loop", "out", "a", "", "../a", "nothing"] {
                assert!(archive.blob(name).is_none(), "{name}");
            }
        }
    }

    #[test]
    fn a_cut_archive_is_an_error() {
        let bytes = sample();
        for cut in [100, 513, 1600] {
            assert!(open(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        assert!(open(b"").unwrap().entries.is_empty());
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, gzip(&vec![0; 1 << 20])).unwrap();
        let limits = Limits { max_archive_bytes: 1 << 16, ..Limits::default() };
        assert!(Archive::open(File::open(path).unwrap(), dir.path(), &limits).is_err());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2048),
            at in 0_usize..4096,
        ) {
            let _ = open(&bytes);
            let mut bent = sample();
            let len = bent.len();
            for (offset, byte) in bytes.iter().take(4).enumerate() {
                bent[(at + offset) % len] = *byte;
            }
            if let Ok(archive) = open(&bent) {
                for name in archive.entries.keys() {
                    if let Some((mut section, _)) = archive.blob(name) {
                        let _ = io::copy(&mut section, &mut io::sink());
                    }
                }
            }
        }
    }
}
