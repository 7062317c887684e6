//! Resolves the paths of a container, in its root and in what is mounted there: links are followed as the container
//! library will when it mounts, and as the kernel will once all is mounted. Nothing is read outside of these.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use serde_json::Value;

use crate::embedded::error::{Error, Result};
use crate::embedded::spec::is_filled_last;

/// The kernel's limit.
const MOST_LINKS: usize = 40;

/// A container's root, and what has been mounted in it so far.
pub(super) struct Places {
    root: PathBuf,
    mounts: Vec<Mounted>,
}

struct Mounted {
    /// The path in the container, without links.
    at: PathBuf,
    holds: Holds,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Holds {
    Volume {
        source: PathBuf,
        is_writable: bool,
    },
    /// A file system of the kernel, in which nothing leads anywhere else.
    Kernel,
}

/// The root or mount that a path of the container leads to, and where in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Root(PathBuf),
    Volume { source: PathBuf, rest: PathBuf, is_writable: bool },
    Kernel,
}

impl Places {
    /// Returns the places of a container with this specification and this root.
    ///
    /// # Errors
    /// If a volume would lie where the container library creates something by a path of the host, once all is mounted:
    /// it would be created in the volume, or wherever a link in it leads.
    pub(super) fn of(spec: &Value, root: &Path) -> Result<Self> {
        let mut places = Self { root: root.to_owned(), mounts: Vec::new() };
        for mount in spec["mounts"].as_array().into_iter().flatten() {
            let Some(wanted) = mount["destination"].as_str() else { continue };
            let at = places.resolve(Path::new(wanted))?;
            let holds = Holds::of(mount);
            if matches!(holds, Holds::Volume { .. }) && is_filled_last(&at) {
                let problem = format!(
                    "a volume for {wanted} would be mounted on {}, which is reserved for the runtime: a link in the \
                     image or in another volume leads there",
                    at.display()
                );
                return Err(Error::State(problem));
            }
            places.mounts.push(Mounted { at, holds });
        }
        Ok(places)
    }

    /// Resolves a path of the container.
    pub(super) fn find(&self, path: &Path) -> Result<Place> {
        Ok(self.place(&self.resolve(path)?))
    }

    /// Returns a path without links and without `..`. A missing component is taken for a folder that will be created.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let mut found = PathBuf::from("/");
        let mut left = parts_last_first(path);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                found.pop();
                continue;
            }
            let next = found.join(&part);
            let Some(target) = self.link(&next) else {
                found = next;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                let problem = format!("too many links in the volume path {}", path.display());
                return Err(Error::State(problem));
            }
            if target.is_absolute() {
                found = PathBuf::from("/");
            }
            left.extend(parts_last_first(&target));
        }
        Ok(found)
    }

    /// Returns the place of a path without links: the nearest mount above it, and the last of several on the same path.
    fn place(&self, path: &Path) -> Place {
        let above = self.mounts.iter().filter_map(|mount| Some((mount, path.strip_prefix(&mount.at).ok()?)));
        let Some((mount, rest)) = above.max_by_key(|(mount, _)| mount.at.components().count()) else {
            return Place::Root(path.strip_prefix("/").unwrap_or(path).to_owned());
        };
        match mount.holds.clone() {
            Holds::Volume { source, is_writable } => {
                Place::Volume { source, rest: rest.to_owned(), is_writable }
            }
            Holds::Kernel => Place::Kernel,
        }
    }

    /// Returns the target of the link at a path, if there is one.
    fn link(&self, path: &Path) -> Option<PathBuf> {
        let (folder, rest) = match self.place(path) {
            Place::Root(rest) => (self.root.clone(), rest),
            Place::Volume { source, rest, .. } => (source, rest),
            Place::Kernel => return None,
        };
        if rest.as_os_str().is_empty() {
            return None;
        }
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let folder =
            openat(CWD, &folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat2(&folder, &rest, flags, Mode::empty(), inside).ok()?;
        let kind = FileType::from_raw_mode(fstat(&found).ok()?.st_mode);
        if kind != FileType::Symlink {
            return None;
        }
        let target = readlinkat(&found, "", Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}

impl Holds {
    fn of(mount: &Value) -> Self {
        let options = mount["options"].as_array();
        let is_writable = options.is_some_and(|options| options.iter().any(|option| option == "rw"));
        match mount["source"].as_str() {
            Some(source) if mount["type"] == "bind" => {
                Self::Volume { source: PathBuf::from(source), is_writable }
            }
            _ => Self::Kernel,
        }
    }
}

fn parts_last_first(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<OsString> = named.collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn bind(at: &str, source: &Path, access: &str) -> Value {
        json!({ "destination": at, "type": "bind", "source": source, "options": ["rbind", access] })
    }

    fn kernel(at: &str) -> Value {
        json!({ "destination": at, "type": "tmpfs", "source": "tmpfs", "options": [] })
    }

    /// Creates a root and two volumes: `v` and `w`.
    fn scene() -> (tempfile::TempDir, PathBuf, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let [root, v, w] = ["root", "v", "w"].map(|name| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        });
        fs::create_dir(root.join("srv")).unwrap();
        (folder, root, v, w)
    }

    #[test]
    fn the_nearest_mount_has_it() {
        let (_folder, root, v, w) = scene();
        let mounts = [
            kernel("/proc"),
            bind("/data", &v, "rw"),
            bind("/data/inner", &v, "rw"),
            bind("/data/inner", &w, "ro"),
        ];
        let places = Places::of(&json!({ "mounts": mounts }), &root).unwrap();
        let volume = |source: &Path, rest: &str, is_writable| Place::Volume {
            source: source.to_owned(),
            rest: rest.into(),
            is_writable,
        };
        for (path, wanted) in [
            ("/srv/app", Place::Root("srv/app".into())),
            ("/database", Place::Root("database".into())),
            ("/data/x/y", volume(&v, "x/y", true)),
            ("/data/inner", volume(&w, "", false)),
            ("/data/inner/../x", volume(&v, "x", true)),
            ("/proc/x", Place::Kernel),
        ] {
            assert_eq!(places.find(Path::new(path)).unwrap(), wanted, "{path}");
        }
    }

    #[test]
    fn links_are_followed_in_the_root_and_in_volumes() {
        let (_folder, root, v, w) = scene();
        symlink("/data", root.join("app")).unwrap();
        symlink("../../../srv", v.join("out")).unwrap();
        symlink("app", root.join("again")).unwrap();
        // A volume covers it.
        fs::create_dir(root.join("data")).unwrap();
        symlink("/srv", root.join("data/x")).unwrap();
        let mounts = [bind("/data", &v, "rw"), bind("/app/w", &w, "rw")];
        let places = Places::of(&json!({ "mounts": mounts }), &root).unwrap();
        let volume = |source: &Path, rest: &str| Place::Volume {
            source: source.to_owned(),
            rest: rest.into(),
            is_writable: true,
        };
        for (path, wanted) in [
            ("/app/x", volume(&v, "x")),
            ("/again/y", volume(&v, "y")),
            ("/data/w/z", volume(&w, "z")),
            ("/data/out/z", Place::Root("srv/z".into())),
        ] {
            assert_eq!(places.find(Path::new(path)).unwrap(), wanted, "{path}");
        }
        symlink("round", root.join("round")).unwrap();
        assert!(places.find(Path::new("/round/x")).is_err());
    }

    #[test]
    fn no_link_brings_a_volume_to_where_the_library_makes_things() {
        let (_folder, root, v, w) = scene();
        fs::create_dir(root.join("dev")).unwrap();
        symlink("/dev", root.join("devices")).unwrap();
        symlink("/", root.join("all")).unwrap();
        symlink("/dev/ptmx", root.join("one")).unwrap();
        symlink("/", v.join("a")).unwrap();
        symlink("../../dev", v.join("b")).unwrap();
        let before = || vec![kernel("/dev"), bind("/data", &v, "rw")];
        for (at, is_fine) in [
            ("/devices", false),
            ("/all", false),
            ("/one", false),
            ("/data/a", false),
            ("/data/b", false),
            ("/data/a/dev/null", false),
            ("/data/a/srv", true),
            ("/devices/fuse", true),
            ("/dev/termination-log", true),
            ("/data/c", true),
        ] {
            let mut mounts = before();
            mounts.push(bind(at, &w, "rw"));
            let places = Places::of(&json!({ "mounts": mounts }), &root);
            assert_eq!(places.is_ok(), is_fine, "{at}");
        }
    }
}
