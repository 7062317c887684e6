//! The plan for a container's root, and what can be read from it before it is mounted.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::error::{Error, Result};
use super::shim::settings::RootfsPlan;
use crate::image::rootfs::{MountPoint, Options};
use crate::image::{Image, ImageStore};

/// More than any legitimate `/etc/passwd`; anything beyond is an attempt to exhaust our memory.
const MAX_FILE: u64 = 4 << 20;

/// Returns the plan for an image: its layers, topmost first, or the host's root.
pub(crate) fn plan(images: &ImageStore, image: &Image) -> RootfsPlan {
    if image.is_built_in() {
        return RootfsPlan::Host(Options::default());
    }
    let mut layers = images.layer_dirs(image);
    layers.reverse();
    // A layer that appears again further down adds nothing, and overlayfs rejects it.
    let mut seen = std::collections::HashSet::new();
    layers.retain(|layer| seen.insert(layer.clone()));
    RootfsPlan::Layers(layers)
}

/// Adds what will be mounted to the plan: every mount point must exist before a root becomes read-only. `hidden` is a
/// folder that no container sees. `read_only` is what was requested; the host's root is always read-only, except for
/// its private folders.
pub(crate) fn with_mounts(
    plan: RootfsPlan,
    spec: &serde_json::Value,
    hidden: &Path,
    read_only: bool,
) -> RootfsPlan {
    let RootfsPlan::Host(_) = plan else { return plan };
    let mounts = spec["mounts"].as_array().into_iter().flatten();
    let mount_points = mounts.filter_map(|mount| {
        let place = PathBuf::from(mount["destination"].as_str()?);
        // Sockets and devices are mounted on a file as well.
        let is_file = mount["type"] == "bind" && !Path::new(mount["source"].as_str()?).is_dir();
        Some(if is_file { MountPoint::File(place) } else { MountPoint::Dir(place) })
    });
    let mount_points = mount_points.collect();
    RootfsPlan::Host(Options { mount_points, hide: vec![hidden.to_owned()], read_only })
}

/// Reads a small file of an image, as the container would see it; `None` if it has no such file.
pub(crate) fn read(plan: &RootfsPlan, path: &str) -> Result<Option<String>> {
    let layers: Vec<PathBuf> = match plan {
        RootfsPlan::Host(_) => vec![PathBuf::from("/")],
        RootfsPlan::Layers(layers) => layers.clone(),
        RootfsPlan::Empty => Vec::new(),
    };
    for layer in &layers {
        match open_inside(layer, path) {
            Ok(Some(mut file)) => {
                let mut text = Vec::new();
                file.by_ref()
                    .take(MAX_FILE)
                    .read_to_end(&mut text)
                    .map_err(|error| Error::io(format!("read {path} of the image"), error))?;
                return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
            }
            // Removed by this layer: the layers below do not matter.
            Ok(None) => return Ok(None),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            Err(errno) => return Err(Error::io(format!("open {path} of the image"), errno)),
        }
    }
    Ok(None)
}

/// Opens a regular file without ever leaving the layer, whatever links it has. Returns `None` for a whiteout.
fn open_inside(layer: &Path, path: &str) -> rustix::io::Result<Option<fs::File>> {
    let root = openat(CWD, layer, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let path = path.trim_start_matches('/');
    let file =
        match openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
        {
            // A whiteout is a device without a driver.
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            other => fs::File::from(other?),
        };
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(Some(file)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_layer_wins_and_links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let (top, bottom) = (dir.path().join("top"), dir.path().join("bottom"));
        for layer in [&top, &bottom] {
            fs::create_dir_all(layer.join("etc")).unwrap();
        }
        fs::write(bottom.join("etc/passwd"), "bottom").unwrap();
        fs::write(bottom.join("etc/group"), "bottom").unwrap();
        fs::write(top.join("etc/group"), "top").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", top.join("etc/link")).unwrap();
        let plan = RootfsPlan::Layers(vec![top, bottom]);
        assert_eq!(read(&plan, "/etc/passwd").unwrap().as_deref(), Some("bottom"));
        assert_eq!(read(&plan, "/etc/group").unwrap().as_deref(), Some("top"));
        assert_eq!(read(&plan, "/etc/link").unwrap(), None, "not the host's file");
        assert_eq!(read(&plan, "/none").unwrap(), None);
        assert_eq!(read(&RootfsPlan::Empty, "/etc/passwd").unwrap(), None);
    }

    #[test]
    fn the_hosts_root_is_told_of_every_mount_on_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let spec = serde_json::json!({ "mounts": [
            { "destination": "/a", "type": "bind", "source": "/usr" },
            { "destination": "/b", "type": "bind", "source": file.path() },
            { "destination": "/c", "type": "bind", "source": "/dev/null" },
            { "destination": "/proc", "type": "proc", "source": "proc" },
        ]});
        let hidden = Path::new("/data");
        let plan = RootfsPlan::Host(Options::default());
        let RootfsPlan::Host(options) = with_mounts(plan, &spec, hidden, true) else {
            panic!("another plan");
        };
        assert_eq!((options.hide, options.read_only), (vec![hidden.to_owned()], true));
        let [a, b, c, proc] = ["/a", "/b", "/c", "/proc"].map(PathBuf::from);
        let wanted = [MountPoint::Dir(a), MountPoint::File(b), MountPoint::File(c), MountPoint::Dir(proc)];
        assert_eq!(options.mount_points, wanted);
        let layers = RootfsPlan::Layers(vec!["/l".into()]);
        assert_eq!(
            with_mounts(layers.clone(), &spec, hidden, false),
            layers,
            "others make their mount points as they go"
        );
    }
}
