//! `fsGroup`: the group of the pod's files. It applies only to volumes that the agent creates: on a volume of the host,
//! it would change what is not the pod's.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

const SET_GROUP_ID: u32 = 0o2000;

/// The group that owns the pod's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileGroup(u32);

impl FileGroup {
    /// Returns the group of the pod, if it asks for one.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
        u32::try_from(group).ok().map(Self)
    }

    /// Gives one folder to the group, which may then write there and will own what is created there.
    pub(super) fn take_folder(self, path: &Path) -> io::Result<()> {
        self.take(path, 0o770 | SET_GROUP_ID)
    }

    /// Gives all files below `folder` to the group, for reading. Only for folders that nobody else can write to.
    pub(super) fn take_files(self, folder: &Path) -> io::Result<()> {
        self.take(folder, 0o550 | SET_GROUP_ID)?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.take_files(&entry.path())?;
            } else {
                self.take(&entry.path(), 0o440)?;
            }
        }
        Ok(())
    }

    fn take(self, path: &Path, mode: u32) -> io::Result<()> {
        lchown(path, None, Some(self.0))?;
        let before = fs::symlink_metadata(path)?;
        if before.is_symlink() {
            // A link has no mode of its own: its target's mode would be changed.
            return Ok(());
        }
        let before = before.permissions().mode();
        fs::set_permissions(path, Permissions::from_mode((before & 0o7777) | mode))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// The group of the test process: files may always be given to that.
    fn group_of(folder: &Path) -> FileGroup {
        FileGroup(fs::metadata(folder).unwrap().gid())
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_can_be_read_by_the_group_folders_pass_it_on_and_links_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        for (name, before) in [("file", 0o600), ("below/secret", 0o400), ("outside", 0o600)] {
            fs::write(at(name), "").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(before)).unwrap();
        }
        fs::rename(at("outside"), folder.path().with_extension("outside")).unwrap();
        symlink(folder.path().with_extension("outside"), at("link")).unwrap();
        fs::set_permissions(at("below"), Permissions::from_mode(0o700)).unwrap();
        group_of(folder.path()).take_files(folder.path()).unwrap();
        assert_eq!((mode(&at("file")), mode(&at("below/secret"))), (0o640, 0o440));
        assert_eq!(mode(&at("below")), 0o2750);
        let outside = folder.path().with_extension("outside");
        assert_eq!(mode(&outside), 0o600, "what a link points to is not the volume's");
        fs::remove_file(outside).unwrap();
    }

    #[test]
    fn a_folder_of_the_group_can_be_written_by_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        group_of(folder.path()).take_folder(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o2775);
    }
}
