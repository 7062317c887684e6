//! `fsGroup`: the group of the pod's files. Only for volumes that the agent makes: on a volume of the host it would change
//! what is not the pod's.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

const SET_GROUP_ID: u32 = 0o2000;

/// The group that the pod's files belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileGroup(u32);

impl FileGroup {
    /// That of the pod, if it asks for one.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
        u32::try_from(group).ok().map(Self)
    }

    /// Gives one folder to the group: it may write there, and what is made there will be the group's, too.
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
        let before = fs::symlink_metadata(path)?.permissions().mode();
        fs::set_permissions(path, Permissions::from_mode((before & 0o7777) | mode))
    }
}
