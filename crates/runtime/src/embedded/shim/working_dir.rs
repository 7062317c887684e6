//! The folder that a program starts in. One that is not there is made, as other runtimes do: in the volume that has it, or in
//! the container's own layer.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use serde_json::Value;

use super::mount_ns::ROOTFS;
use super::places::{Place, Places};
use super::settings::RootfsPlan;

/// Makes it, if it can be made. If not, the program cannot be started, and the error of that says so.
pub(super) fn make(spec: &Value, places: &Places, plan: &RootfsPlan) {
    let Some(wanted) = spec["process"]["cwd"].as_str() else { return };
    let place = match places.find(Path::new(wanted)) {
        Ok(Place::Volume { source, rest, is_writable: true }) => Some((source, rest)),
        // The built-in image is the host's root: nothing is made there.
        Ok(Place::Root(rest)) if matches!(plan, RootfsPlan::Layers(_)) => Some((PathBuf::from(ROOTFS), rest)),
        _ => None,
    };
    if let Some((root, rest)) = place {
        let _ = make_inside(&root, &rest);
    }
}

/// Makes every part of a path that is missing. Links lead nowhere but inside, whoever made them.
fn make_inside(root: &Path, path: &Path) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let open = |path: &Path| openat2(&root, path, flags, Mode::empty(), inside);
    let mut so_far = PathBuf::new();
    let mut parent: OwnedFd = open(Path::new("."))?;
    for part in path.components() {
        so_far.push(part);
        parent = match open(&so_far) {
            Err(Errno::NOENT) => {
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
        make_inside(&root, Path::new("srv/app/deep")).unwrap();
        make_inside(&root, Path::new("link/other")).unwrap();
        assert!(root.join("srv/app/deep").is_dir() && root.join("srv/other").is_dir());
        for path in ["absolute/x", "relative/x", "srv/../../outside/x"] {
            let _ = make_inside(&root, Path::new(path));
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
