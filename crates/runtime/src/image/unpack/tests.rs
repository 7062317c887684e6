//! Tests of the unpacker with honest layers and hostile ones.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use proptest::prelude::*;
use tar::{EntryType, Header};

use super::*;
use crate::image::streams::Hashing;

/// One entry as an attacker writes it: with no checks on any field.
#[derive(Clone, Debug)]
struct Raw {
    kind: EntryType,
    path: Vec<u8>,
    link: Vec<u8>,
    data: Vec<u8>,
    mode: u32,
    xattr: Option<(String, Vec<u8>)>,
}

fn raw(kind: EntryType, path: &str, link: &str, data: &str) -> Raw {
    Raw { kind, path: path.into(), link: link.into(), data: data.into(), mode: 0o644, xattr: None }
}

fn file(path: &str, data: &str) -> Raw {
    raw(EntryType::Regular, path, "", data)
}

fn dir(path: &str) -> Raw {
    Raw { mode: 0o755, ..raw(EntryType::Directory, path, "", "") }
}

fn symlink(path: &str, target: &str) -> Raw {
    raw(EntryType::Symlink, path, target, "")
}

fn hardlink(path: &str, target: &str) -> Raw {
    raw(EntryType::Link, path, target, "")
}

fn layer(entries: &[Raw]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries {
        // Pax records can hold any bytes, of any length.
        let mut pax =
            vec![("path".to_owned(), entry.path.clone()), ("linkpath".to_owned(), entry.link.clone())];
        pax.retain(|(_, value)| !value.is_empty());
        pax.extend(entry.xattr.iter().map(|(name, value)| (format!("SCHILY.xattr.{name}"), value.clone())));
        tar.append_pax_extensions(pax.iter().map(|(key, value)| (key.as_str(), value.as_slice()))).unwrap();
        let mut header = Header::new_ustar();
        header.set_entry_type(entry.kind);
        header.set_size(entry.data.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(1_000_000);
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
        header.set_cksum();
        tar.append(&header, entry.data.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}

/// A target, and a canary beside it that must not be touched.
struct Field {
    dir: tempfile::TempDir,
}

impl Field {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for path in ["canary/deep", "target"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("canary/deep/file"), "root").unwrap();
        fs::write(dir.path().join("canary/file"), "canary").unwrap();
        Self { dir }
    }

    fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    fn unpack(&self, entries: &[Raw]) -> Result<LayerMeta, UnpackError> {
        self.unpack_with(entries, &Limits::default())
    }

    fn unpack_with(&self, entries: &[Raw], limits: &Limits) -> Result<LayerMeta, UnpackError> {
        unpack(Hashing::new(layer(entries).as_slice()), &self.target(), limits)
    }

    fn assert_nothing_outside_changed(&self) {
        let names = |path: &str| {
            let mut names: Vec<_> = fs::read_dir(self.dir.path().join(path))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(""), ["canary", "target"]);
        assert_eq!(names("canary"), ["deep", "file"]);
        assert_eq!(names("canary/deep"), ["file"]);
        for (path, text) in [("canary/deep/file", "root"), ("canary/file", "canary")] {
            let path = self.dir.path().join(path);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let meta = fs::metadata(&path).unwrap();
            assert_eq!(meta.nlink(), 1, "{} got a link from inside", path.display());
            assert_eq!(meta.mode() & 0o7777, 0o644);
        }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.target().join(path)).unwrap()
    }
}

fn reason(result: Result<LayerMeta, UnpackError>) -> UnpackReason {
    result.unwrap_err().reason
}

#[test]
fn an_honest_layer_is_unpacked_with_everything() {
    let field = Field::new();
    let mut suid = file("usr/bin/su", "binary");
    suid.mode = 0o4755;
    suid.xattr = Some(("user.note".into(), b"a\nb".to_vec()));
    let mut tmp = dir("tmp/");
    tmp.mode = 0o1777;
    let meta = field
        .unpack(&[
            dir("./"),
            tmp,
            dir("usr"),
            dir("usr/lib"),
            suid,
            file("/rooted/name", "box"),
            symlink("lib", "usr/lib"),
            file("lib/libc.so", "elf"),
            // Names that no machine has: if this test ever fails, it must not damage the machine it runs on.
            dir("layer-only"),
            symlink("absolute", "/layer-only"),
            file("absolute/tool", "ls"),
            hardlink("usr/bin/su2", "usr/bin/su"),
            raw(EntryType::Fifo, "pipe", "", ""),
            raw(EntryType::Char, "null", "", ""),
            raw(EntryType::XGlobalHeader, "ignored", "", "17 comment=global\n"),
        ])
        .unwrap();
    assert_eq!(field.read("rooted/name"), "box");
    assert_eq!(field.read("usr/lib/libc.so"), "elf", "through a relative link");
    assert_eq!(field.read("layer-only/tool"), "ls", "an absolute link starts at the layer's root");
    let at = |path: &str| fs::symlink_metadata(field.target().join(path)).unwrap();
    assert_eq!(at("usr/bin/su").ino(), at("usr/bin/su2").ino());
    assert_eq!(at("usr/bin/su").permissions().mode() & 0o7777, 0o4755);
    assert_eq!(at("tmp").permissions().mode() & 0o7777, 0o1777);
    assert_eq!(at("rooted").permissions().mode() & 0o7777, 0o755, "a directory nobody mentioned");
    assert_eq!(at("usr").mtime(), 1_000_000, "though files came into it later");
    assert!(at("pipe").file_type().is_fifo());
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(field.target().join("usr/bin/su"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..len], b"a\nb");
    assert_eq!(meta.bytes, 14);
    assert!(!meta.marked);
    if owns_every_id() {
        assert!(at("null").file_type().is_char_device());
    }
    field.assert_nothing_outside_changed();
}

#[test]
fn capabilities_are_kept() {
    let field = Field::new();
    let mut ping = file("ping", "binary");
    let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ping.xattr = Some(("security.capability".into(), capability.to_vec()));
    field.unpack(&[ping]).unwrap();
    if owns_every_id() {
        let mut value = [0; 20];
        let len =
            rustix::fs::getxattr(field.target().join("ping"), "security.capability", &mut value).unwrap();
        assert_eq!(value[..len], capability);
    }
}

#[test]
fn paths_that_leave_are_refused_by_name() {
    for path in ["../canary/file", "a/../../canary/file", "/../canary/file", ".."] {
        let field = Field::new();
        let error = field.unpack(&[file(path, "evil")]).unwrap_err();
        assert!(matches!(error.reason, UnpackReason::Path(PathError::Parent)), "{path}: {error}");
        assert!(error.to_string().contains(path), "{error}");
        field.assert_nothing_outside_changed();
    }
}

#[test]
fn links_do_not_lead_outside() {
    let field = Field::new();
    let outside = field.dir.path().join("canary");
    let outside = outside.to_str().unwrap();
    let up = "../".repeat(40) + outside;
    for target in [outside, &up, "../canary", "/", "..", "../..", "/proc/self/root", "/proc/self/cwd"] {
        let field = Field::new();
        // In turn: written through, replaced, written over, removed, linked to, made into a directory.
        let attempts: [&[Raw]; 7] = [
            &[symlink("x", target), file("x/file", "evil")],
            &[symlink("x", target), dir("x"), file("x/file", "mine")],
            &[symlink("x", target), file("x", "mine")],
            &[symlink("x", target), file("x/.wh.file", "")],
            &[symlink("x", target), file("x/.wh..wh..opq", "")],
            &[symlink("x", target), hardlink("stolen", "x/file")],
            &[symlink("x", target), symlink("x/file", "evil"), dir("x/deep"), dir("x/")],
        ];
        for entries in attempts {
            let _ = field.unpack(entries);
            field.assert_nothing_outside_changed();
            files_of(&field.target());
            crate::image::files::remove_tree(&field.target()).unwrap();
            fs::create_dir(field.target()).unwrap();
        }
    }
}

/// Walks the whole tree without following links, which proves that it can be walked.
fn files_of(dir: &Path) -> usize {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() { 1 + files_of(&entry.path()) } else { 1 }
        })
        .sum()
}

#[test]
fn hard_links_lead_only_to_files_of_the_layer() {
    let field = Field::new();
    let outside = field.dir.path().join("canary/file");
    for target in [outside.to_str().unwrap(), "/etc/passwd", "nothing", "a/nothing", "/", "", "."] {
        let error = reason(field.unpack(&[file("a/b", "x"), hardlink("x", target)]));
        assert!(matches!(error, UnpackReason::LinkTarget(_)), "{target}: {error}");
    }
    let error = reason(field.unpack(&[hardlink("x", "../canary/file")]));
    assert!(matches!(error, UnpackReason::Path(PathError::Parent)), "{error}");
    let error = reason(field.unpack(&[dir("d"), hardlink("x", "d")]));
    assert!(matches!(error, UnpackReason::LinkTarget(_)), "{error}");
    // A hard link to a symlink is another name of the symlink, not of its target.
    field.unpack(&[symlink("s", outside.to_str().unwrap()), hardlink("h", "s")]).unwrap();
    assert!(fs::symlink_metadata(field.target().join("h")).unwrap().is_symlink());
    field.unpack(&[file("self", "kept"), hardlink("self", "self")]).unwrap();
    assert_eq!(field.read("self"), "kept");
    let error = reason(field.unpack(&[file("p/q", "x"), hardlink("p", "p/q")]));
    assert!(matches!(error, UnpackReason::LinkTarget(_)), "{error}");
    field.assert_nothing_outside_changed();
}

#[test]
fn the_last_entry_of_a_name_wins() {
    let field = Field::new();
    field
        .unpack(&[
            file("a", "one"),
            file("a", "two"),
            dir("d"),
            file("d/x", "gone"),
            file("d", "now a file"),
            symlink("l", "/layer-only"),
            dir("l"),
            file("l/x", "mine"),
            file("m", "x"),
            dir("m"),
            dir("n"),
            symlink("n", "m"),
            file("n/through", "x"),
        ])
        .unwrap();
    assert_eq!(field.read("a"), "two");
    assert_eq!(field.read("d"), "now a file");
    assert_eq!(field.read("l/x"), "mine");
    assert_eq!(field.read("m/through"), "x");
    let error = reason(field.unpack(&[file("f", "x"), file("f/y", "x")]));
    assert!(matches!(error, UnpackReason::NotADirectory), "{error}");
    let error = reason(field.unpack(&[symlink("dangling", "nowhere"), file("dangling/y", "x")]));
    assert!(matches!(error, UnpackReason::NotADirectory), "{error}");
    let error = reason(field.unpack(&[symlink("loop", "loop"), file("loop/y", "x")]));
    assert!(matches!(error, UnpackReason::NotADirectory), "{error}");
}

#[test]
fn whiteouts_become_overlay_marks() {
    let field = Field::new();
    let meta = field
        .unpack(&[
            file("gone/.wh.file", ""),
            dir("opaque"),
            file("opaque/.wh..wh..opq", ""),
            file("opaque/kept", "x"),
            file(".wh.back", ""),
            dir("back"),
            dir("early"),
            file("early/x", "x"),
            file(".wh.early", ""),
            file("same", "kept"),
            file(".wh.same", ""),
            dir(".wh..wh.plnk"),
            file(".wh..wh.plnk/1.2", ""),
        ])
        .map_err(|error| error.to_string());
    // Files below the old metadata names are refused: nobody has written them for years.
    assert!(meta.unwrap_err().contains("whiteout"));
    let at = |path: &str| field.target().join(path);
    let opaque = |path: &str| marks::is_opaque(fs::File::open(at(path)).unwrap());
    let whiteout = |path: &str| {
        let meta = fs::symlink_metadata(at(path)).unwrap();
        meta.file_type().is_char_device() && meta.rdev() == 0
    };
    assert!(whiteout("gone/file"));
    assert!(opaque("opaque") && field.read("opaque/kept") == "x");
    assert!(opaque("back"), "a directory that replaces a whiteout hides what was there");
    assert!(opaque("early") && field.read("early/x") == "x", "in whichever order they come");
    assert_eq!(field.read("same"), "kept");
    for path in [".wh...", ".wh..", ".wh.", "a/.wh.b/c"] {
        let field = Field::new();
        let error = reason(field.unpack(&[file(path, "")]));
        assert!(matches!(error, UnpackReason::Path(PathError::Whiteout)), "{path}: {error}");
    }
}

#[test]
fn an_archive_cannot_write_overlay_marks_itself() {
    let field = Field::new();
    let marked =
        ["trusted.overlay.redirect", "user.overlay.opaque", "trusted.overlay.opaque", "security.ima"]
            .map(|name| Raw { xattr: Some((name.to_owned(), b"y".to_vec())), ..dir("d") });
    field.unpack(&marked).unwrap();
    let mut names = [0; 256];
    assert_eq!(rustix::fs::listxattr(field.target().join("d"), &mut names).unwrap(), 0);
}

#[test]
fn bombs_stop_at_the_limit() {
    let field = Field::new();
    let limits = Limits { max_entries: 10, max_depth: 5, ..Limits::default() };
    let many: Vec<Raw> = (0..11).map(|n| file(&n.to_string(), "")).collect();
    assert!(matches!(reason(field.unpack_with(&many, &limits)), UnpackReason::TooManyEntries(10)));
    let deep = file("a/b/c/d/e/f", "");
    assert!(matches!(reason(field.unpack_with(&[deep], &limits)), UnpackReason::Path(PathError::TooDeep(5))));
    // Links can give a deep place a short name.
    let by_links = [dir("a/b/c/d"), symlink("s", "a/b/c/d"), dir("s/e"), dir("s/e/f")];
    assert!(matches!(
        reason(field.unpack_with(&by_links, &limits)),
        UnpackReason::Path(PathError::TooDeep(5))
    ));

    let full = Limits { min_free_bytes: u64::MAX, ..Limits::default() };
    assert!(matches!(reason(field.unpack_with(&[file("x", "x")], &full)), UnpackReason::NoSpace(_)));

    let zeros = std::io::repeat(0).take(1 << 30);
    let capped = Hashing::new(crate::image::streams::Capped::new(zeros, 1 << 20));
    assert!(unpack(capped, &field.target(), &Limits::default()).is_ok(), "zeros are an empty archive");
    let mut header = Header::new_ustar();
    header.set_size(1 << 40);
    header.set_path("huge").unwrap();
    header.set_cksum();
    let stream = header.as_bytes().as_slice().chain(std::io::repeat(7));
    let capped = Hashing::new(crate::image::streams::Capped::new(stream, 1 << 20));
    let error = unpack(capped, &field.target(), &Limits::default()).unwrap_err();
    assert!(matches!(error.reason, UnpackReason::TooBig(OverLimit { limit: 1048576 })), "{error}");
}

#[test]
fn owners_that_cannot_exist_are_refused() {
    let field = Field::new();
    let mut header = Header::new_ustar();
    header.set_size(0);
    header.set_path("x").unwrap();
    header.set_uid(u64::from(u32::MAX));
    header.set_cksum();
    let error = unpack(Hashing::new(header.as_bytes().as_slice()), &field.target(), &Limits::default());
    assert!(matches!(error.unwrap_err().reason, UnpackReason::Owner(4294967295)));
}

/// Names from a small set, so that entries collide; many of them try to escape.
fn hostile_path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop_oneof!["[abc]", Just("a".to_owned()), Just("b".to_owned())],
        2 => Just(".".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just(String::new()),
        1 => Just("/".to_owned()),
        1 => prop_oneof![".wh.[abc]", Just(".wh..wh..opq".to_owned()), Just(".wh...".to_owned())],
        1 => Just("canary".to_owned()),
        1 => "\\PC{1,8}",
    ];
    proptest::collection::vec(part, 0..5).prop_map(|parts| parts.join("/").into_bytes())
}

fn hostile_target() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => hostile_path(),
        2 => proptest::collection::vec(Just(".."), 1..12).prop_map(|up| (up.join("/") + "/canary").into_bytes()),
        1 => Just(b"/".to_vec()),
        1 => Just(b"..".to_vec()),
        1 => Just(b"../canary".to_vec()),
        1 => Just(b"../canary/file".to_vec()),
        1 => Just(b"/proc/self/cwd".to_vec()),
        1 => Just(b"/proc/self/fd/3".to_vec()),
    ]
}

fn hostile_entry() -> impl Strategy<Value = Raw> {
    let kind = prop_oneof![
        3 => Just(EntryType::Regular),
        3 => Just(EntryType::Directory),
        4 => Just(EntryType::Symlink),
        3 => Just(EntryType::Link),
        1 => Just(EntryType::Fifo),
        1 => Just(EntryType::Char),
        1 => Just(EntryType::Block),
    ];
    let xattr = proptest::option::weighted(
        0.1,
        (prop_oneof!["user.[a-z]{1,4}", Just("trusted.overlay.opaque".to_owned())], Just(b"y".to_vec())),
    );
    (kind, hostile_path(), hostile_target(), "[a-z]{0,16}", 0_u32..0o7777, xattr).prop_map(
        |(kind, path, link, data, mode, xattr)| {
            let data = if kind == EntryType::Regular { data.into_bytes() } else { Vec::new() };
            Raw { kind, path, link, data, mode, xattr }
        },
    )
}

proptest! {
    #[test]
    fn no_list_of_entries_reaches_outside(entries in proptest::collection::vec(hostile_entry(), 1..24)) {
        let field = Field::new();
        // One entry at a time as well as all together, since an error must not hide what comes after it.
        let _ = field.unpack(&entries);
        for entry in &entries {
            let _ = field.unpack(std::slice::from_ref(entry));
        }
        field.assert_nothing_outside_changed();
        // Whatever was created can also be removed.
        crate::image::files::remove_tree(&field.target()).unwrap();
        prop_assert!(!field.target().exists());
    }

    #[test]
    fn arbitrary_bytes_are_an_error_or_a_layer(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let field = Field::new();
        let _ = unpack(Hashing::new(bytes.as_slice()), &field.target(), &Limits::default());
        field.assert_nothing_outside_changed();
    }
}
