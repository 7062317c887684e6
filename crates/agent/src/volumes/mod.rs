//! The volumes of a pod: made before its sandbox, refreshed while it runs, taken down after it ended.
//!
//! All of this blocks on disks and mounts: call it off the async threads. Every call can be repeated: an agent that was
//! restarted prepares again what is already there. One caller at a time for one pod.

mod atomic_writer;
mod empty_dir;
mod error;
mod host_path;
mod kind;
mod layout;
mod mount;
mod mount_table;
mod nested;
mod ownership;
mod payload;
mod removal;
mod subpath;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Volume};

use crate::downward::PodFacts;
use crate::environment::Environment;
pub use error::VolumeError;
pub use kind::VolumeKind;
pub(crate) use kind::given as given_kinds;
pub use layout::{DataDirectory, PodDirectory};
pub use mount::{Mount, Propagation, RecursiveReadOnly};
pub(crate) use payload::{DEFAULT_MODE as DEFAULT_FILE_MODE, given_projections};

/// The volumes of a pod, ready to be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    volumes: BTreeMap<String, PreparedVolume>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedVolume {
    pub(crate) path: PathBuf,
    /// The agent writes it, nobody else may.
    pub(crate) read_only: bool,
    /// The agent made it: neither the host's files nor somebody else's.
    pub(crate) is_ours: bool,
}

impl Prepared {
    /// Where a volume lies on this host.
    #[must_use]
    pub fn path(&self, volume: &str) -> Option<&Path> {
        self.volumes.get(volume).map(|volume| volume.path.as_path())
    }
}

/// Makes, refreshes and takes down the volumes of pods.
#[derive(Clone, Debug)]
pub struct Volumes {
    data: DataDirectory,
}

impl Volumes {
    /// Volumes below `data`.
    #[must_use]
    pub fn new(data: DataDirectory) -> Self {
        Self { data }
    }

    /// Where pods lie.
    #[must_use]
    pub fn data(&self) -> &DataDirectory {
        &self.data
    }

    /// Makes every volume that a container of the pod mounts, or makes sure that it is there and up to date. This is
    /// also how config maps, secrets and the downward API are refreshed while the pod runs.
    ///
    /// # Errors
    /// If a volume cannot be had; what was made of it is taken down again. Ask again later.
    pub fn prepare(&self, facts: &PodFacts<'_>, now: Timestamp) -> Result<Prepared, VolumeError> {
        let uid = facts.pod.metadata.uid.as_deref().unwrap_or_default();
        let directory = self.data.pod(uid)?;
        directory.create()?;
        let Some(spec) = &facts.pod.spec else { return Ok(Prepared::default()) };

        let mut prepared = Prepared::default();
        for volume in spec.volumes.iter().flatten().filter(|volume| is_mounted(spec, &volume.name)) {
            let one = Setup { directory: &directory, facts, spec, volume, now };
            let ready = one.run().map_err(|source| VolumeError::SetUp {
                volume: volume.name.clone(),
                source: Box::new(source),
            })?;
            prepared.volumes.insert(volume.name.clone(), ready);
        }
        Ok(prepared)
    }

    /// What to mount into a container, in the order of its manifest. `environment` is that of the container:
    /// `subPathExpr` uses it.
    ///
    /// # Errors
    /// If a mount names no volume of the pod, or a path that leads out of it.
    pub fn mounts(
        &self,
        uid: &str,
        prepared: &Prepared,
        container: &Container,
        environment: &Environment,
    ) -> Result<Vec<Mount>, VolumeError> {
        let directory = self.data.pod(uid)?;
        let wanted = container.volume_mounts.iter().flatten().enumerate();
        wanted
            .map(|(index, wanted)| mount::make(&directory, prepared, container, environment, index, wanted))
            .collect()
    }

    /// Unmounts and deletes the volumes of a pod of which nothing runs any more; the rest of its folder stays.
    ///
    /// # Errors
    /// If something is still in use. Ask again later.
    pub fn release(&self, uid: &str) -> Result<(), VolumeError> {
        removal::remove_volumes(&self.data.pod(uid)?)
    }

    /// Deletes the pod's folder with everything in it, after unmounting what `prepare` and `mounts` mounted. Anything
    /// else that is mounted in there stops it: nothing behind a mount is ever deleted.
    ///
    /// # Errors
    /// If something is still in use. Ask again later.
    pub fn teardown(&self, uid: &str) -> Result<(), VolumeError> {
        removal::remove_pod(&self.data.pod(uid)?)
    }
}

/// Of the folder of a volume in memory: the kernel's own, which a kubelet leaves. Others lie where only root comes by.
const MODE_IN_MEMORY: u32 = 0o1777;

/// Whether the pod has volumes whose files the agent writes, and keeps up to date while it runs.
pub(crate) fn are_written(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let written = |volume: &&Volume| VolumeKind::of(volume).is_ok_and(VolumeKind::is_written);
    spec.volumes.iter().flatten().filter(written).any(|volume| is_mounted(spec, &volume.name))
}

/// Volumes that nobody mounts are not made: a missing config map of one need not keep the pod from running.
fn is_mounted(spec: &PodSpec, volume: &str) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().flat_map(|container| container.volume_mounts.iter());
    containers
        .flat_map(|container| container.volume_mounts.iter())
        .chain(ephemeral)
        .flatten()
        .any(|mount| mount.name == volume)
}

struct Setup<'a> {
    directory: &'a PodDirectory,
    facts: &'a PodFacts<'a>,
    spec: &'a PodSpec,
    volume: &'a Volume,
    now: Timestamp,
}

impl Setup<'_> {
    fn run(&self) -> Result<PreparedVolume, VolumeError> {
        let name = &self.volume.name;
        match VolumeKind::of(self.volume)? {
            VolumeKind::EmptyDir(source) => {
                let path = empty_dir::make(self.directory, name, source, self.facts)?;
                Ok(PreparedVolume { path, read_only: false, is_ours: true })
            }
            VolumeKind::HostPath(source) => {
                let path = host_path::check(source)?;
                Ok(PreparedVolume { path, read_only: false, is_ours: false })
            }
            VolumeKind::ConfigMap(source) => {
                self.written("configmap", false, payload::config_map(source, self.facts))
            }
            VolumeKind::Secret(source) => self.written("secret", true, payload::secret(source, self.facts)),
            VolumeKind::DownwardApi(source) => {
                self.written("downward-api", true, payload::downward(source, self.facts))
            }
            VolumeKind::Projected(source) => {
                self.written("projected", true, payload::projected(source, self.facts))
            }
        }
    }

    fn written(
        &self,
        plugin: &str,
        in_memory: bool,
        files: Result<payload::Files, VolumeError>,
    ) -> Result<PreparedVolume, VolumeError> {
        let files = files?;
        let path = self.directory.volume(plugin, &self.volume.name);
        let made = layout::create_directory(&path, 0o777)?;
        let write = || {
            if in_memory && !mount_table::is_mount_point(&path)? {
                mount_table::mount_tmpfs(&path, None)?;
                layout::set_mode(&path, MODE_IN_MEMORY)?;
            }
            nested::create(&path, self.spec, &self.volume.name)?;
            atomic_writer::write(&path, &files, ownership::FileGroup::of(self.facts.pod), self.now)
        };
        match write() {
            Ok(is_new) => {
                if is_new {
                    tracing::debug!(path = %path.display(), "the files of a volume were written");
                }
                Ok(PreparedVolume { path, read_only: true, is_ours: true })
            }
            Err(error) => {
                if made {
                    // The first error says why; a failed clean-up is found again by the next attempt or the teardown.
                    let _ = removal::remove_volume(&path);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
