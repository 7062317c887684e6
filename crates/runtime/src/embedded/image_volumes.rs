//! The volumes of an image: folders for which it wants separate storage (`VOLUME`), so that they are writable whatever
//! happens to the root.
//!
//! Each is a folder of the container, and is removed with it. Its initial content is what the image has in that place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rubelet_cri::v1;

use super::error::{Error, Result};
use super::spec::{is_filled_last, plain};
use super::store;
use crate::image::{ImageConfig, rootfs};

/// The subfolder of the container's folder that has them, by number.
const FOLDER: &str = "volumes";

/// Returns their paths in a container, without links, `..` or a trailing slash. A path that a mount of the request
/// covers needs no volume.
pub(crate) fn places(image: &ImageConfig, config: &v1::ContainerConfig) -> Result<Vec<String>> {
    let given: Vec<String> = config.mounts.iter().map(|mount| plain(&mount.container_path)).collect();
    let mut places: Vec<String> = Vec::new();
    for wanted in &image.volumes {
        let place = plain(wanted);
        if given.contains(&place) || places.contains(&place) {
            continue;
        }
        if is_filled_last(Path::new(&place)) {
            let problem = "this path is reserved for the runtime: build the image without this volume";
            return Err(Error::unsupported(format!("image.config.volumes[{wanted:?}]"), problem));
        }
        places.push(place);
    }
    Ok(places)
}

/// Returns the folder of the volume with this number.
pub(crate) fn source(container: &Path, number: usize) -> PathBuf {
    container.join(FOLDER).join(number.to_string())
}

/// Creates the folders, empty, with the mode of an image's folder that does not specify one.
pub(crate) fn make(container: &Path, places: &[String]) -> Result<()> {
    for number in 0..places.len() {
        let folder = source(container, number);
        store::make_dir(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))
            .map_err(|error| Error::io(format!("set the mode of {}", folder.display()), error))?;
    }
    Ok(())
}

/// Copies into the folders what the image has in their places; `root` is the image's root.
pub(crate) fn fill(container: &Path, places: &[String], root: &Path) -> Result<()> {
    for (number, place) in places.iter().enumerate() {
        let inside = Path::new(place.trim_start_matches('/'));
        rootfs::copy_folder(root, inside, &source(container, number))
            .map_err(|error| Error::State(format!("cannot fill the image's volume {place}: {error}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_mount_of_the_request_takes_the_place_of_a_volume() {
        let volumes = ["/data", "/data/", "relative/./x", "/given//", "/b/../c"].map(str::to_owned).to_vec();
        let image = ImageConfig { volumes, ..ImageConfig::default() };
        let mount = |path: &str| v1::Mount { container_path: path.to_owned(), ..Default::default() };
        let config =
            v1::ContainerConfig { mounts: vec![mount("/given"), mount("/data/inner")], ..Default::default() };
        assert_eq!(places(&image, &config).unwrap(), ["/data", "/relative/x", "/c"]);
        for place in ["/", "/dev", "/dev/null", "/x/.."] {
            let image = ImageConfig { volumes: vec![place.to_owned()], ..ImageConfig::default() };
            let refused = places(&image, &config).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("image.config.volumes[{place:?}]")), "{refused}");
        }
    }

    #[test]
    fn they_begin_with_what_the_image_has_and_nothing_from_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (root, container, outside) =
            (dir.path().join("root"), dir.path().join("container"), dir.path().join("outside"));
        for folder in [&root.join("var/lib/x/empty"), &container, &outside] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(root.join("var/lib/x/file"), "content").unwrap();
        fs::hard_link(root.join("var/lib/x/file"), root.join("var/lib/x/again")).unwrap();
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        mknodat(CWD, root.join("var/lib/x/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        // Only root can make these.
        for (name, kind) in [("disk", FileType::BlockDevice), ("memory", FileType::CharacterDevice)] {
            let _ = mknodat(CWD, root.join("var/lib/x").join(name), kind, Mode::RWXU, makedev(1, 1));
        }
        fs::set_permissions(root.join("var/lib/x"), fs::Permissions::from_mode(0o2770)).unwrap();
        fs::write(root.join("file"), "").unwrap();
        fs::write(outside.join("secret"), "").unwrap();
        symlink("/var/lib/x", root.join("inside")).unwrap();
        symlink(&outside, root.join("absolute")).unwrap();
        symlink("../outside", root.join("relative")).unwrap();
        let places = ["/inside", "/absolute", "/relative", "/none", "/file"].map(str::to_owned);
        make(&container, &places).unwrap();
        fill(&container, &places, &root).unwrap();
        let names = |number| -> Vec<String> {
            let entries = fs::read_dir(source(&container, number)).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names(0), ["again", "empty", "file", "pipe"], "and no devices");
        assert_eq!(fs::read_to_string(source(&container, 0).join("again")).unwrap(), "content");
        assert_eq!(fs::metadata(source(&container, 0)).unwrap().permissions().mode() & 0o7777, 0o2770);
        for (number, place) in places.iter().enumerate().skip(1) {
            assert_eq!(names(number), Vec::<String>::new(), "{place}");
        }
    }
}
