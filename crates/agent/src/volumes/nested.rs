//! Mounts inside mounts. A volume that the agent writes is read-only for its containers, so a runtime cannot create the
//! folder for another mount inside it: the agent does so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{PodSpec, VolumeMount};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::mount::absolute;
use super::{VolumeError, VolumeKind};

/// Creates the folders and files below `root` on which other volumes are mounted.
pub(super) fn create(root: &Path, spec: &PodSpec, volume: &str) -> Result<(), VolumeError> {
    for (point, is_file) in mount_points(spec, volume) {
        let fail = || VolumeError::io::<Errno>("create", root.join(&point));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, root, flags, Mode::empty()).map_err(fail())?;
        let mut names = Path::new(&point).components().peekable();
        while let Some(name) = names.next() {
            let is_leaf = names.peek().is_none();
            let made = if is_leaf && is_file {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(&folder, name.as_os_str(), flags, Mode::from_raw_mode(0o644)).map(drop)
            } else {
                mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o755))
            };
            match made {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(fail()(error)),
            }
            if !is_leaf {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                folder = openat2(&folder, name.as_os_str(), flags, Mode::empty(), resolve).map_err(fail())?;
            }
        }
    }
    Ok(())
}

/// Returns where, relative to the volume, the containers mount others inside it, and whether each of these is a file.
fn mount_points(spec: &PodSpec, volume: &str) -> BTreeMap<String, bool> {
    let mut points = BTreeMap::new();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let mounts = || container.volume_mounts.iter().flatten();
        for outer in mounts().filter(|mount| mount.name == volume && is_whole(mount)) {
            for inner in mounts() {
                let (outer, inner_path) = (absolute(&outer.mount_path), absolute(&inner.mount_path));
                let Ok(inside) = Path::new(&inner_path).strip_prefix(&outer) else {
                    continue;
                };
                let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
                let reserved = inside.to_string_lossy().starts_with("..");
                if !inside.as_os_str().is_empty() && plain && !reserved {
                    points.insert(inside.to_string_lossy().into_owned(), is_file(spec, inner));
                }
            }
        }
    }
    points
}

/// Whether the mount is of a file: a part of a volume that the agent writes usually is; one of the host is what it is
/// there.
fn is_file(spec: &PodSpec, mount: &VolumeMount) -> bool {
    let Some(volume) = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name) else {
        return false;
    };
    match VolumeKind::of(volume) {
        Ok(VolumeKind::EmptyDir(_)) | Err(_) => false,
        Ok(VolumeKind::HostPath(source)) => {
            let path = Path::new(&source.path).join(mount.sub_path.as_deref().unwrap_or_default());
            fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir())
        }
        Ok(_) => !is_whole(mount),
    }
}

fn is_whole(mount: &VolumeMount) -> bool {
    [&mount.sub_path, &mount.sub_path_expr].into_iter().flatten().all(String::is_empty)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, Volume};

    use super::*;

    #[test]
    fn inner_mounts_are_found() {
        let mount = |name: &str, path: &str| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            ..VolumeMount::default()
        };
        let file = VolumeMount { sub_path: Some("key".to_owned()), ..mount("map", "/etc/app/conf.d/x.conf") };
        let map =
            Volume { name: "map".to_owned(), config_map: Some(Default::default()), ..Volume::default() };
        let spec = PodSpec {
            containers: vec![Container {
                volume_mounts: Some(vec![
                    mount("outer", "/etc/app"),
                    mount("a", "/etc/app/cache"),
                    mount("b", "etc/app/deep/er"),
                    mount("c", "/etc/application"),
                    mount("d", "/etc/app/../x"),
                    mount("e", "/etc/app/..data"),
                    file,
                ]),
                ..Container::default()
            }],
            volumes: Some(vec![map]),
            ..PodSpec::default()
        };
        let points: Vec<_> = mount_points(&spec, "outer").into_iter().collect();
        let expected = [("cache", false), ("conf.d/x.conf", true), ("deep/er", false)];
        assert_eq!(points, expected.map(|(path, is_file)| (path.to_owned(), is_file)));
        assert!(mount_points(&spec, "a").is_empty());

        let folder = tempfile::tempdir().expect("a folder");
        create(folder.path(), &spec, "outer").expect("made");
        create(folder.path(), &spec, "outer").expect("made again");
        assert!(folder.path().join("deep/er").is_dir());
        assert!(folder.path().join("conf.d/x.conf").is_file());
    }
}
