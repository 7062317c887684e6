//! Mounts inside of mounts. A volume that the agent writes is read-only to its containers, so a runtime cannot make the
//! folder for another mount inside it: the agent does.

use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{PodSpec, VolumeMount};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::VolumeError;

/// Makes the folders below `root` on which other volumes are mounted.
pub(super) fn create(root: &Path, spec: &PodSpec, volume: &str) -> Result<(), VolumeError> {
    for point in mount_points(spec, volume) {
        let fail = || VolumeError::io::<Errno>("create", root.join(&point));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, root, flags, Mode::empty()).map_err(fail())?;
        for name in Path::new(&point).components() {
            match mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(fail()(error)),
            }
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            folder = openat2(&folder, name.as_os_str(), flags, Mode::empty(), resolve).map_err(fail())?;
        }
    }
    Ok(())
}

/// Where, relative to the volume, the containers mount others inside it.
fn mount_points(spec: &PodSpec, volume: &str) -> Vec<String> {
    let mut points = Vec::new();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let mounts = || container.volume_mounts.iter().flatten();
        for outer in mounts().filter(|mount| mount.name == volume && is_whole(mount)) {
            for inner in mounts() {
                let Ok(inside) = Path::new(&inner.mount_path).strip_prefix(&outer.mount_path) else {
                    continue;
                };
                let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
                let reserved = inside.to_string_lossy().starts_with("..");
                if !inside.as_os_str().is_empty() && plain && !reserved {
                    points.push(inside.to_string_lossy().into_owned());
                }
            }
        }
    }
    points.sort_unstable();
    points.dedup();
    points
}

fn is_whole(mount: &VolumeMount) -> bool {
    [&mount.sub_path, &mount.sub_path_expr].into_iter().flatten().all(String::is_empty)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Container;

    use super::*;

    #[test]
    fn inner_mounts_are_found() {
        let mount = |name: &str, path: &str| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            ..VolumeMount::default()
        };
        let spec = PodSpec {
            containers: vec![Container {
                volume_mounts: Some(vec![
                    mount("outer", "/etc/app"),
                    mount("a", "/etc/app/cache"),
                    mount("b", "/etc/app/deep/er"),
                    mount("c", "/etc/application"),
                    mount("d", "/etc/app/../x"),
                    mount("e", "/etc/app/..data"),
                ]),
                ..Container::default()
            }],
            ..PodSpec::default()
        };
        assert_eq!(mount_points(&spec, "outer"), ["cache", "deep/er"]);
        assert_eq!(mount_points(&spec, "a"), Vec::<String>::new());

        let folder = tempfile::tempdir().expect("a folder");
        create(folder.path(), &spec, "outer").expect("made");
        create(folder.path(), &spec, "outer").expect("made again");
        assert!(folder.path().join("deep/er").is_dir());
    }
}
