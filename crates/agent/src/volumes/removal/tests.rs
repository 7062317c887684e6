use std::os::unix::fs::symlink;

use rustix::fs::IFlags;

use super::*;

#[test]
fn links_are_removed_and_never_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let precious = folder.path().join("precious");
    fs::create_dir(&precious).expect("made");
    fs::write(precious.join("data"), "keep me").expect("written");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("made");
    fs::write(tree.join("a/file"), "x").expect("written");
    symlink(&precious, tree.join("a/link")).expect("a link");
    symlink(precious.join("data"), tree.join("data")).expect("a link");
    symlink("nowhere", tree.join("dangling")).expect("a link");
    rustix::fs::mknodat(CWD, tree.join("pipe"), rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .expect("a pipe");
    remove_tree(&tree).expect("removed");
    assert!(!tree.exists());
    assert_eq!(fs::read_to_string(precious.join("data")).expect("still there"), "keep me");
    remove_tree(&tree).expect("what is gone is removed");
}

#[test]
fn a_tree_that_is_itself_a_link_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let precious = folder.path().join("precious");
    fs::create_dir(&precious).expect("made");
    symlink(&precious, folder.path().join("tree")).expect("a link");
    assert!(remove_tree(&folder.path().join("tree")).is_err());
    assert!(precious.exists());
}

#[test]
fn what_may_not_be_removed_is_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).expect("made");
    let file = fs::File::create(tree.join("fixed")).expect("made");
    if let Err(error) = rustix::fs::ioctl_setflags(&file, IFlags::IMMUTABLE) {
        eprintln!("SKIPPED: no file can be made immutable here: {error}");
        return;
    }
    let error = remove_tree(&tree).expect_err("it is immutable").to_string();
    rustix::fs::ioctl_setflags(&file, IFlags::empty()).expect("mutable again");
    assert!(error.starts_with("remove ") && error.contains("Operation not permitted"), "{error}");
    remove_tree(&tree).expect("removed");
}

/// Deeper than a path can be long.
#[test]
fn a_very_deep_tree_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).expect("made");
    fs::create_dir(tree.join("..removing-1")).expect("a name that is wanted");
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut deepest = openat(CWD, &tree, flags, Mode::empty()).expect("open");
    for _ in 0..600 {
        rustix::fs::mkdirat(&deepest, "deeper", Mode::from_raw_mode(0o700)).expect("made");
        deepest = openat(&deepest, "deeper", flags, Mode::empty()).expect("open");
    }
    drop(deepest);
    remove_tree(&tree).expect("removed");
    assert!(!tree.exists());
}

#[test]
fn our_mounts_are_known_by_their_place() {
    for (path, ours) in [
        ("volumes/kubernetes.io~empty-dir/a", Some(OurMount::Volume)),
        ("volumes/kubernetes.io~empty-dir/a/inner", None),
        ("volumes/kubernetes.io~empty-dir", None),
        ("volume-subpaths/v/c/0", Some(OurMount::Part)),
        ("volume-subpaths/v/c/0/inner", None),
        ("containers/c/x", None),
        ("", None),
    ] {
        assert_eq!(OurMount::at(Path::new(path)), ours, "{path}");
    }
}
