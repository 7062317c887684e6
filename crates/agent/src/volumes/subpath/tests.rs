use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;

fn volume(path: &Path) -> PreparedVolume {
    PreparedVolume { path: path.to_path_buf(), read_only: false, is_ours: true }
}

/// Returns the real path of an open file.
fn opened(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("an open file")
}

#[test]
fn parts_are_found_or_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = fs::canonicalize(folder.path()).expect("a path");
    // The mode of a volume in memory.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o1777)).expect("open to all");
    fs::create_dir_all(root.join("real/deep")).expect("made");
    fs::write(root.join("real/file"), "x").expect("written");
    symlink("real", root.join("link")).expect("a link");
    symlink("../real/deep", root.join("real/up-and-down")).expect("a link");
    symlink(root.join("real/deep"), root.join("current")).expect("a link");
    symlink(&root, root.join("itself")).expect("a link");
    for (path, expected) in [
        ("real", "real"),
        ("./real/", "real"),
        ("real/file", "real/file"),
        ("link/deep", "real/deep"),
        ("real/up-and-down", "real/deep"),
        ("current", "real/deep"),
        ("itself", ""),
        ("itself/link/deep", "real/deep"),
        ("new/er/est", "new/er/est"),
        ("link/new", "real/new"),
    ] {
        let fd = open("v", &volume(&root), path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(opened(&fd), root.join(expected), "{path}");
    }
    let mode = fs::metadata(root.join("new/er")).expect("made").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o777, "as the volume, but for its sticky bit");
}

#[test]
fn nothing_leads_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let outside = folder.path().join("outside");
    let root = folder.path().join("volume");
    fs::create_dir(&outside).expect("made");
    fs::create_dir(&root).expect("made");
    symlink(&outside, root.join("absolute")).expect("a link");
    symlink("../outside", root.join("relative")).expect("a link");
    symlink("/proc/self/root", root.join("magic")).expect("a link");
    symlink("loop", root.join("loop")).expect("a link");
    symlink("../outside/made-through-a-link", root.join("dangling")).expect("a link");
    symlink("/", root.join("slash")).expect("a link");
    for path in [
        "..",
        "../outside",
        "a/../../outside",
        "/etc",
        "absolute",
        "relative",
        "relative/x",
        "magic/etc",
        "loop",
        "dangling",
        "dangling/x",
        "slash/tmp",
        "absolute/new/folder",
    ] {
        let result = open("v", &volume(&root), path);
        assert!(matches!(result, Err(VolumeError::Escapes { .. })), "{path}: {result:?}");
    }
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0, "nothing was made outside");
    let error = open("v", &volume(&root), "..").expect_err("leads out").to_string();
    assert_eq!(error, "subPath \"..\" of volume \"v\" leads out of the volume, or is not a path inside it");
}

#[test]
fn a_link_that_dangles_inside_is_not_followed_either() {
    let folder = tempfile::tempdir().expect("a folder");
    symlink("missing", folder.path().join("link")).expect("a link");
    assert!(matches!(open("v", &volume(folder.path()), "link/x"), Err(VolumeError::Escapes { .. })));
}

#[test]
fn nothing_is_made_in_a_volume_that_the_agent_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = PreparedVolume { read_only: true, ..volume(folder.path()) };
    let error = open("v", &written, "missing").expect_err("not there").to_string();
    assert!(
        error.starts_with("open ") && error.ends_with("No such file or directory (os error 2)"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}
