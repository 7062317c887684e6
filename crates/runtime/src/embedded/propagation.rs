//! Volumes with mount propagation, which works only if the host's mount is shared.

use std::path::Path;

use rubelet_cri::v1;
use v1::MountPropagation;

use super::error::{Error, Result};
use super::mountinfo::{self, Mount};

/// Rejects a volume that would not propagate as requested, as other runtimes do.
pub(super) fn check(index: usize, wanted: &v1::Mount) -> Result<()> {
    if wanted.propagation() == MountPropagation::PropagationPrivate {
        return Ok(());
    }
    let problem = |error| Error::io(format!("find mounts[{index}].host_path {}", wanted.host_path), error);
    let path = std::fs::canonicalize(&wanted.host_path).map_err(problem)?;
    let table = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Error::io("read the mount table", error))?;
    match obstacle(&mountinfo::parse(&table), &path, wanted.propagation()) {
        None => Ok(()),
        Some(problem) => Err(Error::unsupported(format!("mounts[{index}].propagation"), problem)),
    }
}

/// Returns why mounts below a path of the host do not propagate as requested.
fn obstacle(mounts: &[Mount], path: &Path, wanted: MountPropagation) -> Option<String> {
    let mount = mountinfo::containing(mounts, path)?;
    let (spreads, kind) = match wanted {
        MountPropagation::PropagationPrivate => return None,
        MountPropagation::PropagationHostToContainer => (mount.shared || mount.slave, "shared or slave"),
        MountPropagation::PropagationBidirectional => (mount.shared, "shared"),
    };
    let (path, point) = (path.display(), mount.point.display());
    (!spreads).then(|| {
        format!("path \"{path}\" is mounted on \"{point}\" but it is not a {kind} mount; `mount --make-rshared {point}` makes it one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_spread_where_the_host_shares_them() {
        use MountPropagation::{PropagationBidirectional, PropagationHostToContainer, PropagationPrivate};
        let mounts = mountinfo::parse(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n\
             2 1 8:2 / /s rw shared:1 - ext4 /dev/b rw\n\
             3 1 8:3 / /m rw master:1 - ext4 /dev/c rw\n",
        );
        for (path, wanted, spreads) in [
            ("/x", PropagationPrivate, true),
            ("/x", PropagationHostToContainer, false),
            ("/x", PropagationBidirectional, false),
            ("/m/x", PropagationHostToContainer, true),
            ("/m/x", PropagationBidirectional, false),
            ("/s/x", PropagationHostToContainer, true),
            ("/s/x", PropagationBidirectional, true),
        ] {
            let obstacle = obstacle(&mounts, Path::new(path), wanted);
            assert_eq!(obstacle.is_none(), spreads, "{path} {wanted:?}: {obstacle:?}");
        }
    }
}
