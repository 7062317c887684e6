//! What a pod leaves on this machine when its containers are gone: volumes, cgroups, logs, its folder.

use std::io;
use std::path::Path;

use rubelet_model::PodUid;

use crate::cgroup::{GroupError, PodGroups};
use crate::pod::remove_logs_of_pod;
use crate::volumes::{VolumeError, Volumes};

/// The places with data of pods outside the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Leavings<'a> {
    /// `None` where pods have no cgroups of their own.
    pub groups: Option<&'a PodGroups>,
    /// The folder of the pods' logs.
    pub logs: &'a Path,
    /// The pods' volumes, in the data directory.
    pub volumes: &'a Volumes,
}

/// Why something could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum LeavingsError {
    /// A cgroup could not be removed.
    #[error("its {0}")]
    Group(#[from] GroupError),
    /// The logs could not be removed.
    #[error("its logs: {0}")]
    Logs(#[source] VolumeError),
    /// The folder could not be removed.
    #[error("its folder: {0}")]
    Folder(#[from] VolumeError),
}

impl LeavingsError {
    /// Whether something of the pod is still running: a cgroup without processes can be removed.
    #[must_use]
    pub fn is_of_who_runs(&self) -> bool {
        let Self::Group(error) = self else { return false };
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
        source.is_some_and(|source| source.kind() == io::ErrorKind::ResourceBusy)
    }
}

impl Leavings<'_> {
    /// Releases what a pod used, once nothing of it is running any more: its volumes, then its cgroup (to which their
    /// memory is charged as long as they exist), and the IDs of its users. The records about the pod stay. Blocks on
    /// the disk.
    ///
    /// # Errors
    ///
    /// If something cannot be released now.
    pub fn release(&self, uid: &PodUid) -> Result<(), LeavingsError> {
        self.volumes.release(uid.as_str())?;
        if let Some(groups) = self.groups {
            groups.forget(uid)?;
        }
        // The IDs come last: no other pod may have them as long as anything of this one is left.
        Ok(self.volumes.data().pod(uid.as_str())?.release_user_ids()?)
    }

    /// Removes everything of a pod that has nothing left in the runtime. The folder goes last: as long as it exists,
    /// the pod is known to be this agent's, and removal can be retried. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// If something cannot be removed now.
    pub fn remove(&self, uid: &PodUid) -> Result<(), LeavingsError> {
        self.release(uid)?;
        remove_logs_of_pod(self.logs, uid.as_str()).map_err(LeavingsError::Logs)?;
        Ok(self.volumes.teardown(uid.as_str())?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::volumes::DataDirectory;

    #[test]
    fn the_folder_stays_as_long_as_anything_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["pods/1", "pods/2", "logs/ns_web_1/c", "logs/ns_web_2/c"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let volumes = Volumes::new(DataDirectory::new(folder.path()));
        // A file stands where a folder should be: its logs cannot be listed.
        fs::write(path("file"), "").unwrap();
        let broken = Leavings { groups: None, logs: &path("file"), volumes: &volumes };
        assert!(matches!(broken.remove(&"1".into()), Err(LeavingsError::Logs(_))));
        assert!(path("pods/1").exists(), "it is known as ours until all is gone");

        Leavings { groups: None, logs: &path("logs"), volumes: &volumes }.remove(&"1".into()).unwrap();
        assert!(!path("pods/1").exists() && !path("logs/ns_web_1").exists());
        assert!(path("pods/2").exists() && path("logs/ns_web_2").exists());
    }
}
