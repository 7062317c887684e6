//! The volumes of a container, prepared so that the container library only has to mount them in their places.
//!
//! The library copies the mount that a volume's path is on, and the copy shares mounts with the same peers, whatever
//! was requested: a private volume would show what the host mounts in it later. So each volume that specifies its
//! propagation is first mounted here, with that propagation and where nobody else sees it, and the library copies this.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, mount_bind_recursive, mount_change};
use serde_json::Value;

use super::mount_ns;
use crate::embedded::container::SPEC;
use crate::embedded::error::{Error, Result};
use crate::embedded::store::{self, Durability};

/// Where they are mounted, in the container's folder; only in this process's mount namespace, and so only in memory.
const STAGE: &str = "stage";

/// Mounts the volumes of a specification, and writes a specification for the library that refers to these mounts.
/// Returns the folder that contains it.
pub(super) fn stage(mut spec: Value, folder: &Path) -> Result<PathBuf> {
    let stage = folder.join(STAGE);
    make_dir(&stage)?;
    mount_ns::tmpfs(&stage, "mode=700")?;
    for (index, mount) in spec["mounts"].as_array_mut().into_iter().flatten().enumerate() {
        let (Some(propagation), Some(source)) = (propagation(mount), mount["source"].as_str()) else {
            continue;
        };
        let place = stage.join(index.to_string());
        bind(Path::new(source), &place, propagation)?;
        mount["source"] = Value::from(place.to_string_lossy());
    }
    store::write_json(&stage.join(SPEC), &spec, Durability::Process)?;
    Ok(stage)
}

/// Returns the propagation to apply to a mount; `None` if it is not of a path on the host, or is to stay a peer of the
/// host's mount.
fn propagation(mount: &Value) -> Option<MountPropagationFlags> {
    if mount["type"] != "bind" {
        return None;
    }
    let words = mount["options"].as_array()?;
    let wanted =
        [("rprivate", MountPropagationFlags::PRIVATE), ("rslave", MountPropagationFlags::DOWNSTREAM)];
    let mut found = wanted.into_iter().filter(|(word, _)| words.iter().any(|option| option == word));
    found.next().map(|(_, propagation)| propagation)
}

fn bind(source: &Path, place: &Path, propagation: MountPropagationFlags) -> Result<()> {
    let failed = |error| Error::io(format!("mount the volume {}", source.display()), error);
    let is_folder = fs::metadata(source).map_err(failed)?.is_dir();
    if is_folder {
        make_dir(place)?;
    } else {
        fs::write(place, "").map_err(failed)?;
    }
    mount_bind_recursive(source, place)
        .and_then(|()| mount_change(place, propagation | MountPropagationFlags::REC))
        .map_err(|errno| failed(errno.into()))
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| Error::io(format!("create {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_to_be_made_of_a_mount() {
        let mount = |kind: &str, options: &[&str]| json!({ "type": kind, "options": options });
        for (mount, wanted) in [
            (mount("bind", &["rbind", "rprivate", "ro"]), Some(MountPropagationFlags::PRIVATE)),
            (mount("bind", &["rbind", "rslave", "rw"]), Some(MountPropagationFlags::DOWNSTREAM)),
            (mount("bind", &["rbind", "rshared", "rw"]), None),
            (mount("bind", &["rbind", "ro"]), None),
            (mount("tmpfs", &["rprivate"]), None),
            (json!({ "type": "bind" }), None),
        ] {
            assert_eq!(propagation(&mount), wanted, "{mount}");
        }
    }
}
