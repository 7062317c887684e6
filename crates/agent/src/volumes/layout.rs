//! The places of a pod's things on disk. The layout is the kubelet's, so that tools made for it work here as well.

use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::VolumeError;

/// The agent's data directory, the counterpart of `/var/lib/kubelet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    /// Creates a reference to the data directory at `root`, which should be absolute.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// `<root>/pods`: one folder for each pod, named by its UID.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// Returns the folder of one pod.
    ///
    /// # Errors
    ///
    /// If the UID is not a plain name: it comes from manifests and labels, and must not lead elsewhere.
    pub fn pod(&self, uid: &str) -> Result<PodDirectory, VolumeError> {
        match Path::new(uid).components().collect::<Vec<_>>()[..] {
            [Component::Normal(name)] if name == uid => Ok(PodDirectory { root: self.pods().join(name) }),
            _ => Err(VolumeError::Path {
                path: uid.to_owned(),
                why: "the UID of a pod must be a plain file name",
            }),
        }
    }
}

/// The folder of a pod: `<root>/pods/<uid>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDirectory {
    root: PathBuf,
}

impl PodDirectory {
    /// Returns the folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// `volumes`: all volumes, by plugin.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.root.join("volumes")
    }

    /// `volumes/kubernetes.io~<plugin>/<name>`.
    #[must_use]
    pub fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.volumes().join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// `plugins`: the data of volume plugins.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// `plugins/kubernetes.io~<plugin>/<name>`: a plugin's data about a volume.
    #[must_use]
    pub fn plugin(&self, plugin: &str, name: &str) -> PathBuf {
        self.plugins().join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// `volume-subpaths`: parts of volumes, bound to where nobody can move them.
    #[must_use]
    pub fn subpaths(&self) -> PathBuf {
        self.root.join("volume-subpaths")
    }

    /// `volume-subpaths/<volume>/<container>/<index>`.
    #[must_use]
    pub fn subpath(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        self.subpaths().join(volume).join(container).join(index.to_string())
    }

    /// `containers/<name>`: termination messages.
    #[must_use]
    pub fn container(&self, name: &str) -> PathBuf {
        self.root.join("containers").join(name)
    }

    /// `etc-hosts`: the hosts file of all its containers.
    #[must_use]
    pub fn etc_hosts(&self) -> PathBuf {
        self.root.join("etc-hosts")
    }

    /// `probes.json`: the results of probes.
    #[must_use]
    pub fn probes(&self) -> PathBuf {
        self.root.join("probes.json")
    }

    /// `resources.json`: the resources that the pod and its containers were given.
    #[must_use]
    pub fn resources(&self) -> PathBuf {
        self.root.join("resources.json")
    }

    /// `replaced.json`: the containers that were ended in order to be restarted.
    #[must_use]
    pub fn replaced(&self) -> PathBuf {
        self.root.join("replaced.json")
    }

    /// `userns`: the host IDs of its users.
    #[must_use]
    pub fn user_ids(&self) -> PathBuf {
        self.root.join("userns")
    }

    /// Releases the host IDs of its users.
    pub(crate) fn release_user_ids(&self) -> Result<(), VolumeError> {
        let path = self.user_ids();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(VolumeError::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// `status.json`: the last status of the pod.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.root.join("status.json")
    }

    /// Creates the folders that every pod has.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn create(&self) -> Result<(), VolumeError> {
        create_directory(&self.root, 0o750)?;
        create_directory(&self.root.join("containers"), 0o750).map(drop)
    }
}

/// Creates a folder and its parents. Returns whether it is new.
pub(super) fn create_directory(path: &Path, mode: u32) -> Result<bool, VolumeError> {
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(parent)
            .map_err(VolumeError::io("create", parent))?;
    }
    match fs::create_dir(path) {
        Ok(()) => set_mode(path, mode).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(VolumeError::io("create", path)(error)),
    }
}

/// Sets exactly this mode, whatever the umask.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), VolumeError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(VolumeError::io("set the mode of", path))
}
