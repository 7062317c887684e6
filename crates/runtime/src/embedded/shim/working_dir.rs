//! The folder that a program starts in. If it does not exist, it is created, as other runtimes do: in the volume that
//! its path is in, or in the container's own layer.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use serde_json::Value;

use super::mount_ns::ROOTFS;
use super::places::{Place, Places};
use super::settings::RootfsPlan;
use crate::embedded::error::{Error, Result};

/// Creates the folder, if that is possible.
///
/// # Errors
/// If the folder does not exist and cannot be created: the error of a program that cannot be started would not say
/// which folder is missing.
pub(super) fn make(spec: &Value, places: &Places, plan: &RootfsPlan) -> Result<()> {
    let Some(wanted) = spec["process"]["cwd"].as_str() else { return Ok(()) };
    let (root, rest, why_not) = match places.find(Path::new(wanted))? {
        Place::Kernel => return Ok(()),
        Place::Volume { source, rest, is_writable } => {
            (source, rest, (!is_writable).then_some("its volume is read-only"))
        }
        Place::Root(rest) => {
            let is_host = matches!(plan, RootfsPlan::Host(_));
            (
                PathBuf::from(ROOTFS),
                rest,
                is_host.then_some("folders are not created on the host; mount a volume there"),
            )
        }
    };
    let problem = match (make_inside(&root, &rest, why_not.is_none()), why_not) {
        (Err(Errno::NOENT), Some(why)) => format!("{wanted} does not exist, and {why}"),
        (Err(Errno::NOTDIR), _) => format!("{wanted} is not a folder"),
        // Whether the container's user may enter it is up to the kernel.
        _ => return Ok(()),
    };
    Err(Error::Invalid { field: "working_dir".to_owned(), problem })
}

/// Creates every missing part of a path, if allowed. Links cannot lead out of `root`, whoever created them.
fn make_inside(root: &Path, path: &Path, may_make: bool) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let open = |path: &Path| openat2(&root, path, flags, Mode::empty(), inside);
    let mut so_far = PathBuf::new();
    let mut parent: OwnedFd = open(Path::new("."))?;
    for part in path.components() {
        so_far.push(part);
        parent = match open(&so_far) {
            Err(Errno::NOENT) if may_make => {
                mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o755))?;
                open(&so_far)?
            }
            found => found?,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_made_and_links_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("srv")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, root.join("absolute")).unwrap();
        symlink("../outside", root.join("relative")).unwrap();
        symlink("srv", root.join("link")).unwrap();
        make_inside(&root, Path::new("srv/app/deep"), true).unwrap();
        make_inside(&root, Path::new("link/other"), true).unwrap();
        assert!(root.join("srv/app/deep").is_dir() && root.join("srv/other").is_dir());
        for path in ["absolute/x", "relative/x", "srv/../../outside/x"] {
            let _ = make_inside(&root, Path::new(path), true);
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(make_inside(&root, Path::new("srv/app/deep"), false), Ok(()));
        assert_eq!(make_inside(&root, Path::new("srv/none"), false), Err(Errno::NOENT));
    }

    #[test]
    fn a_folder_that_is_missing_and_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        let volume = |options: &[&str]| json!({"destination": "/v", "type": "bind", "source": folder.path(), "options": options});
        let table = [
            (
                "/v/new",
                &["bind", "ro"][..],
                Some("working_dir: /v/new does not exist, and its volume is read-only"),
            ),
            ("/v/file/x", &["bind", "rw"], Some("working_dir: /v/file/x is not a folder")),
            ("/v/new", &["bind", "rw"], None),
            ("/v/new", &["bind", "ro"], None),
        ];
        for (wanted, options, problem) in table {
            let spec = json!({"process": {"cwd": wanted}, "mounts": [volume(options)]});
            let places = Places::of(&spec, folder.path()).unwrap();
            let made = make(&spec, &places, &RootfsPlan::Empty).map_err(|error| error.to_string());
            assert_eq!(made.err().as_deref(), problem, "{wanted} {options:?}");
        }
    }
}
