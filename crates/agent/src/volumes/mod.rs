//! The volumes of a pod: created before its sandbox, refreshed while it runs, and removed after it has ended.
//!
//! All of this blocks on disks and mounts: call it off the async threads. Every call can be repeated: a restarted agent
//! prepares again what already exists. For one pod, only one caller at a time is allowed.

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
mod room;
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
pub(crate) use mount::absolute;
pub use mount::{Mount, Propagation, RecursiveReadOnly};
pub(crate) use payload::{DEFAULT_MODE as DEFAULT_FILE_MODE, clean_path, given_projections};
pub(crate) use removal::remove_tree;
use room::Room;

/// The volumes of a pod, ready to be mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    volumes: BTreeMap<String, PreparedVolume>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedVolume {
    pub(crate) path: PathBuf,
    /// The agent writes it, and nobody else may.
    pub(crate) read_only: bool,
    /// The agent created it: it holds neither the host's files nor anyone else's.
    pub(crate) is_ours: bool,
}

impl Prepared {
    /// Returns where a volume is on this host.
    #[must_use]
    pub fn path(&self, volume: &str) -> Option<&Path> {
        self.volumes.get(volume).map(|volume| volume.path.as_path())
    }
}

/// The result of preparing the volumes of a pod.
#[derive(Debug, Default)]
pub struct Preparation {
    /// The volumes that can be mounted.
    pub prepared: Prepared,
    /// Why volumes that were set up before are not up to date. They can be mounted as they are.
    pub stale: Vec<VolumeError>,
    /// Why volumes that have never been set up are unavailable. What was created of them has been removed again; retry
    /// later.
    pub missing: Vec<VolumeError>,
}

/// Creates, refreshes and removes the volumes of pods.
#[derive(Clone, Debug)]
pub struct Volumes {
    data: DataDirectory,
}

impl Volumes {
    /// Manages volumes below `data`.
    #[must_use]
    pub fn new(data: DataDirectory) -> Self {
        Self { data }
    }

    /// Returns the directory that holds the pods.
    #[must_use]
    pub fn data(&self) -> &DataDirectory {
        &self.data
    }

    /// Creates every volume that a container of the pod mounts, or ensures that it exists and is up to date. This is
    /// also how config maps, secrets and the downward API are refreshed while the pod runs.
    ///
    /// `ran_before` says whether this agent has already given all of them to the pod: host paths are then not checked,
    /// because the pod may have changed them, and what is behind them may hang. `begins` is called with the name of
    /// each volume before it is touched.
    pub fn prepare(
        &self,
        facts: &PodFacts<'_>,
        now: Timestamp,
        ran_before: bool,
        begins: impl Fn(&str),
    ) -> Preparation {
        let mut done = Preparation::default();
        let directory = match self.folder_of(facts.pod) {
            Ok(directory) => directory,
            Err(error) => return Preparation { missing: vec![error], ..done },
        };
        let Some(spec) = &facts.pod.spec else { return done };
        let mut room = Room::of_pod();
        for volume in spec.volumes.iter().flatten().filter(|volume| is_mounted(spec, &volume.name)) {
            begins(&volume.name);
            let setup = Setup { directory: &directory, facts, spec, volume, now, ran_before };
            room.next_volume();
            let ready = setup.run(&mut room).map_err(|source| {
                let error = VolumeError::SetUp { volume: volume.name.clone(), source: Box::new(source) };
                (setup.found(), error)
            });
            let ready = match ready {
                Ok(ready) => ready,
                Err((Some(found), error)) => {
                    done.stale.push(error);
                    found
                }
                Err((None, error)) => {
                    done.missing.push(error);
                    continue;
                }
            };
            done.prepared.volumes.insert(volume.name.clone(), ready);
        }
        done
    }

    /// Returns the volumes of a pod that were prepared before, as they are: nothing is touched.
    ///
    /// # Errors
    ///
    /// If the pod cannot have had them.
    pub(crate) fn as_they_are(&self, pod: &Pod) -> Result<Prepared, VolumeError> {
        let directory = self.data.pod(pod.metadata.uid.as_deref().unwrap_or_default())?;
        let Some(spec) = &pod.spec else { return Ok(Prepared::default()) };
        let mounted = spec.volumes.iter().flatten().filter(|volume| is_mounted(spec, &volume.name));
        let placed = mounted.map(|volume| Ok((volume.name.clone(), place(&directory, volume)?)));
        Ok(Prepared { volumes: placed.collect::<Result<_, VolumeError>>()? })
    }

    /// Returns the folder of a pod, which is created if it does not exist.
    fn folder_of(&self, pod: &Pod) -> Result<PodDirectory, VolumeError> {
        let directory = self.data.pod(pod.metadata.uid.as_deref().unwrap_or_default())?;
        directory.create()?;
        Ok(directory)
    }

    /// Returns what to mount into a container, in the order of its manifest. `environment` is that of the container,
    /// for `subPathExpr`.
    ///
    /// # Errors
    ///
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

    /// Unmounts and deletes the volumes of a pod in which nothing is running any more; the rest of its folder stays.
    ///
    /// # Errors
    ///
    /// If something is still in use. Retry later.
    pub fn release(&self, uid: &str) -> Result<(), VolumeError> {
        removal::remove_volumes(&self.data.pod(uid)?)
    }

    /// Deletes the pod's folder with everything in it, after unmounting what `prepare` and `mounts` have mounted. Any
    /// other mount inside stops it: nothing behind a mount is ever deleted.
    ///
    /// # Errors
    ///
    /// If something is still in use. Retry later.
    pub fn teardown(&self, uid: &str) -> Result<(), VolumeError> {
        removal::remove_pod(&self.data.pod(uid)?)
    }
}

/// The mode of the folder of a volume in memory: the kernel's default, which a kubelet leaves as it is. Other volumes
/// are in places that only root can reach.
const MODE_IN_MEMORY: u32 = 0o1777;

/// Whether the pod has volumes whose files the agent writes and keeps up to date while the pod runs.
pub(crate) fn are_written(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let written = |volume: &&Volume| VolumeKind::of(volume).is_ok_and(VolumeKind::is_written);
    spec.volumes.iter().flatten().filter(written).any(|volume| is_mounted(spec, &volume.name))
}

/// Whether two versions of a pod mount the same volumes, from the same sources.
pub(crate) fn are_the_same(one: &Pod, other: &Pod) -> bool {
    fn mounted(pod: &Pod) -> impl Iterator<Item = &Volume> {
        let specs = pod.spec.iter();
        specs.flat_map(|spec| spec.volumes.iter().flatten().filter(|volume| is_mounted(spec, &volume.name)))
    }
    mounted(one).eq(mounted(other))
}

/// Whether any container mounts the volume. Others are not created: their missing config map need not keep the pod from
/// running.
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

/// Returns where a volume is, and whose it is.
fn place(directory: &PodDirectory, volume: &Volume) -> Result<PreparedVolume, VolumeError> {
    let ours = |plugin: &str, read_only: bool| PreparedVolume {
        path: directory.volume(plugin, &volume.name),
        read_only,
        is_ours: true,
    };
    Ok(match VolumeKind::of(volume)? {
        VolumeKind::EmptyDir(_) => ours(empty_dir::PLUGIN, false),
        VolumeKind::HostPath(source) => {
            PreparedVolume { path: PathBuf::from(&source.path), read_only: false, is_ours: false }
        }
        VolumeKind::ConfigMap(_) => ours("configmap", true),
        VolumeKind::Secret(_) => ours("secret", true),
        VolumeKind::DownwardApi(_) => ours("downward-api", true),
        VolumeKind::Projected(_) => ours("projected", true),
    })
}

struct Setup<'a> {
    directory: &'a PodDirectory,
    facts: &'a PodFacts<'a>,
    spec: &'a PodSpec,
    volume: &'a Volume,
    now: Timestamp,
    ran_before: bool,
}

impl Setup<'_> {
    fn run(&self, room: &mut Room) -> Result<PreparedVolume, VolumeError> {
        let place = place(self.directory, self.volume)?;
        let path = &place.path;
        match VolumeKind::of(self.volume)? {
            VolumeKind::EmptyDir(source) => {
                empty_dir::make(self.directory, &self.volume.name, source, self.facts)?;
            }
            VolumeKind::HostPath(_) if self.ran_before => {}
            VolumeKind::HostPath(source) => host_path::check(source)?,
            VolumeKind::ConfigMap(source) => {
                self.write(path, false, &payload::config_map(source, self.facts, room)?)?;
            }
            VolumeKind::Secret(source) => {
                self.write(path, true, &payload::secret(source, self.facts, room)?)?;
            }
            VolumeKind::DownwardApi(source) => {
                self.write(path, true, &payload::downward(source, self.facts, room)?)?;
            }
            VolumeKind::Projected(source) => {
                self.write(path, true, &payload::projected(source, self.facts, room)?)?;
            }
        }
        Ok(place)
    }

    /// Returns the volume as it was set up before, if it was. Only volumes that the agent writes can fail after that.
    fn found(&self) -> Option<PreparedVolume> {
        VolumeKind::of(self.volume).ok().filter(|kind| kind.is_written())?;
        place(self.directory, self.volume).ok().filter(|place| atomic_writer::is_written(&place.path))
    }

    fn write(&self, path: &Path, in_memory: bool, files: &payload::Files) -> Result<(), VolumeError> {
        let made = layout::create_directory(path, 0o777)?;
        let write = || {
            if in_memory && !mount_table::is_mount_point(path)? {
                mount_table::mount_tmpfs(path, None)?;
                layout::set_mode(path, MODE_IN_MEMORY)?;
            }
            nested::create(path, self.spec, &self.volume.name)?;
            atomic_writer::write(path, files, ownership::FileGroup::of(self.facts.pod), self.now)
        };
        match write() {
            Ok(is_new) => {
                if is_new {
                    tracing::debug!(path = %path.display(), "the files of a volume were written");
                }
                Ok(())
            }
            Err(error) => {
                if made {
                    // The first error says why; if the clean-up fails, the next attempt or the teardown repeats it.
                    let _ = removal::remove_volume(path);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
