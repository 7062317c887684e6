//! The folder that a program starts in. One that is not there is made, as other runtimes do: in the volume that has it, or in
//! the container's own layer.

use std::cmp::Reverse;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use serde_json::Value;

use super::mount_ns::ROOTFS;
use super::settings::RootfsPlan;

/// Makes it, if it can be made. If not, the program cannot be started, and the error of that says so.
pub(super) fn make(spec: &Value, plan: &RootfsPlan) {
    let Some(wanted) = spec["process"]["cwd"].as_str().map(Path::new) else { return };
    let place = match place(spec, wanted) {
        Place::Volume(place) => Some(place),
        // The built-in image is the host's root: nothing is made there.
        Place::Root(rest) if matches!(plan, RootfsPlan::Layers(_)) => Some((PathBuf::from(ROOTFS), rest)),
        Place::Root(_) | Place::Kernel => None,
    };
    if let Some((root, rest)) = place {
        let _ = make_inside(&root, &rest);
    }
}

/// What has a path of the container, and where in it the path leads.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Root(PathBuf),
    Volume((PathBuf, PathBuf)),
    /// A file system of the kernel, or a volume that may not be written to.
    Kernel,
}

fn place(spec: &Value, wanted: &Path) -> Place {
    let mounts = spec["mounts"].as_array().into_iter().flatten();
    let over = mounts.filter_map(|mount| {
        let rest = wanted.strip_prefix(mount["destination"].as_str()?).ok()?;
        Some((mount, rest))
    });
    // The nearest, and of those on one place the last: it lies above the others.
    let Some((mount, rest)) = over.max_by_key(|(_, rest)| Reverse(rest.components().count())) else {
        return Place::Root(wanted.strip_prefix("/").unwrap_or(wanted).to_owned());
    };
    let options = mount["options"].as_array();
    let writable = options.is_some_and(|options| options.iter().any(|option| option == "rw"));
    match mount["source"].as_str() {
        Some(source) if mount["type"] == "bind" && writable => {
            Place::Volume((PathBuf::from(source), rest.to_owned()))
        }
        _ => Place::Kernel,
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

    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_mount_has_it() {
        let bind = |place: &str, source: &str, access: &str| json!({ "destination": place, "type": "bind", "source": source, "options": ["rbind", access] });
        let spec = json!({ "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc", "options": [] },
            bind("/data", "/host/data", "rw"),
            bind("/data/inner", "/host/below", "rw"),
            bind("/data/inner", "/host/inner", "rw"),
            bind("/fixed", "/host/fixed", "ro"),
        ] });
        let volume = |source: &str, rest: &str| Place::Volume((source.into(), rest.into()));
        for (path, wanted) in [
            ("/srv/app", Place::Root("srv/app".into())),
            ("/database", Place::Root("database".into())),
            ("/data/x/y", volume("/host/data", "x/y")),
            ("/data/inner", volume("/host/inner", "")),
            ("/fixed/x", Place::Kernel),
            ("/proc/x", Place::Kernel),
        ] {
            assert_eq!(place(&spec, Path::new(path)), wanted, "{path}");
        }
    }

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
