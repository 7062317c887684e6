//! Where things of a pod lie on disk. The same layout as the kubelet's, so that its tools find their way.

use std::path::{Path, PathBuf};

/// The folder of the agent: `/var/lib/kubelet` by another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    /// The data folder at `root`, which should be absolute.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// `<root>/pods`: one folder for each pod, named by its UID.
    #[must_use]
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// The folder of one pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> PodDirectory {
        PodDirectory { root: self.pods().join(uid) }
    }
}

/// The folder of a pod: `<root>/pods/<uid>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDirectory {
    root: PathBuf,
}

impl PodDirectory {
    /// The folder itself.
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

    /// `plugins/kubernetes.io~<plugin>/<name>`: what a plugin remembers of a volume.
    #[must_use]
    pub fn plugin(&self, plugin: &str, name: &str) -> PathBuf {
        self.root.join("plugins").join(format!("kubernetes.io~{plugin}")).join(name)
    }

    /// `volume-subpaths`: parts of volumes, bound where nobody can move them.
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
}
