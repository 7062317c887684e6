//! What a pod and its containers need on this machine before the runtime is asked for them: a control group, volumes, the
//! files of a container. All of it blocks on disks; each is one trip off the async threads.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use rubelet_cri::v1;

use super::{Home, Outcome, Tools, Work};
use crate::cgroup::limits_itself;
use crate::downward::PodFacts;
use crate::environment::Environment;
use crate::image::Resolved;
use crate::manifest::Objects;
use crate::off_thread::off_thread;
use crate::pod::config::{ConfigError, ContainerParts, container_config, hosts_file, log_directory};
use crate::pod::files;
use crate::pod::grants::Grants;
use crate::pod::journal::Journal;
use crate::pod::spec;
use crate::runtime::{ImageStore, Runtime};
use crate::user_ids::IdRange;
use crate::volumes::{Mount, Prepared, Propagation, RecursiveReadOnly, VolumeError};

const HOSTS: &str = "/etc/hosts";

/// Why a pod that limits itself does not run where pods have no control groups.
const NO_GROUPS: &str = "pods have no control groups of their own here, so nothing would hold the pod to spec.resources.limits: set the limits of its containers";

/// Why a pod has to wait for what it needs.
enum Unfurnished {
    Group(String),
    Volumes(VolumeError),
}

impl Unfurnished {
    fn tell(&self, journal: &Journal) {
        match self {
            Self::Group(error) => {
                let message = format!("unable to ensure pod container exists: {error}");
                journal.warning(None, "FailedCreatePodContainer", message);
            }
            Self::Volumes(error) => journal.warning(None, "FailedMount", error.to_string()),
        }
    }
}

/// A container that can be made.
pub(super) struct Furnished {
    pub(super) config: v1::ContainerConfig,
    /// What the pod was given, with what this container is given: on disk already, since a container that was made and not
    /// noted would never be resized.
    pub(super) grants: Grants,
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// The control group of the pod, where it is to have one, and its volumes, ready to be mounted; `None` if it must wait
    /// for them.
    pub(super) async fn furnish(&self, outcome: &mut Outcome) -> Option<Prepared> {
        let (tools, pod, volumes) = (self.tools.clone(), self.pod.clone(), self.volumes_to_prepare());
        let furnished = off_thread(move || {
            let machine = &tools.settings.machine;
            match &tools.groups {
                None if limits_itself(&pod) => Err(NO_GROUPS.to_owned()),
                None => Ok(()),
                Some(groups) => groups.ensure(&pod, machine).map_err(|error| error.to_string()),
            }
            .map_err(Unfurnished::Group)?;
            volumes().map_err(Unfurnished::Volumes)
        });
        self.furnished(furnished.await, outcome)
    }

    /// The volumes of a pod that is there already.
    pub(super) async fn volumes(&self, outcome: &mut Outcome) -> Option<Prepared> {
        let prepared = off_thread(self.volumes_to_prepare()).await;
        self.furnished(prepared.map_err(Unfurnished::Volumes), outcome)
    }

    fn furnished(&self, furnished: Result<Prepared, Unfurnished>, outcome: &mut Outcome) -> Option<Prepared> {
        match furnished {
            Ok(prepared) => {
                outcome.volumes_are_ready = true;
                Some(prepared)
            }
            Err(why) => {
                why.tell(self.journal);
                outcome.hold(self.now().plus(self.tools.settings.retry));
                None
            }
        }
    }

    /// Writes anew what has changed in the volumes of a pod that runs. If that fails, the pod goes on with what it has.
    pub(crate) async fn refresh_volumes(&self, outcome: &mut Outcome) {
        match off_thread(self.volumes_to_prepare()).await {
            Ok(_) => outcome.volumes_are_ready = true,
            Err(error) => {
                Unfurnished::Volumes(error).tell(self.journal);
                outcome.retry(self.now().plus(self.tools.settings.retry));
            }
        }
    }

    fn volumes_to_prepare(&self) -> impl FnOnce() -> Result<Prepared, VolumeError> + Send + use<R> {
        let (tools, pod, objects) = (self.tools.clone(), self.pod.clone(), self.objects.clone());
        let ips = self.status.ips.clone();
        let logs = log_directory(&self.tools.settings.logs, self.pod);
        move || {
            std::fs::create_dir_all(&logs).map_err(VolumeError::io("create", &logs))?;
            let facts = PodFacts { pod: &pod, objects: &objects, node: &tools.settings.node, pod_ips: &ips };
            let now = jiff::Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0));
            tools.volumes.prepare(&facts, now.unwrap_or_default())
        }
    }

    /// Everything that the runtime is told of a container, and the files that it is told of.
    pub(super) async fn furnish_container(
        &self,
        home: &Home,
        container: &Container,
        image: Resolved,
    ) -> Result<Furnished, ConfigError> {
        let newest = self.status.newest(&container.name);
        let furnishing = Furnishing {
            tools: self.tools.clone(),
            pod: self.pod.clone(),
            objects: self.objects.clone(),
            container: container.clone(),
            prepared: home.prepared.clone(),
            ips: home.ips.clone(),
            users: home.users,
            image,
            number: newest.map(|newest| newest.restart_count.max(newest.attempt).saturating_add(1)),
            least_number: self.memory.next_instance(&container.name),
            grants: self.memory.grants.clone(),
        };
        off_thread(move || furnishing.run()).await
    }
}

struct Furnishing<R> {
    tools: Arc<Tools<R>>,
    pod: Arc<k8s_openapi::api::core::v1::Pod>,
    objects: Arc<Objects>,
    container: Container,
    prepared: Prepared,
    ips: Vec<IpAddr>,
    users: Option<IdRange>,
    image: Resolved,
    /// Which instance it is, if the runtime knows those before it.
    number: Option<u32>,
    least_number: u32,
    grants: Grants,
}

impl<R> Furnishing<R> {
    fn run(mut self) -> Result<Furnished, ConfigError> {
        let settings = &self.tools.settings;
        let restart_count = self.number.unwrap_or_else(|| {
            let logs = log_directory(&settings.logs, &self.pod);
            files::restart_count_by_logs(&logs, &self.container.name).max(self.least_number)
        });
        let (environment, mounts) = self.surroundings(restart_count)?;
        let config = container_config(&ContainerParts {
            pod: &self.pod,
            container: &self.container,
            restart_count,
            image: &self.image,
            environment: &environment,
            mounts: &mounts,
            machine: &settings.machine,
            security: &settings.security,
            runtime: settings.admission.runtime,
            users: self.users,
        })?;
        self.grants.give(&self.container.name, restart_count, self.container.resources.as_ref());
        let path = settings.data.pod(spec::uid(&self.pod).as_str())?.resources();
        self.grants.note(&path, &spec::pod_ref(&self.pod));
        Ok(Furnished { config, grants: self.grants })
    }

    /// The environment of a container and everything that is mounted into it.
    fn surroundings(&self, restart_count: u32) -> Result<(Environment, Vec<Mount>), ConfigError> {
        let Self { tools, pod, objects, container, prepared, ips, .. } = self;
        let settings = &tools.settings;
        let facts = PodFacts { pod, objects, node: &settings.node, pod_ips: ips };
        let environment = Environment::of(container, &facts)?;
        let uid = spec::uid(pod);
        let mut mounts = tools.volumes.mounts(uid.as_str(), prepared, container, &environment)?;
        let folder = settings.data.pod(uid.as_str())?;
        let brings_hosts = mounts.iter().any(|mount| mount.container_path == HOSTS);
        let of_host = match spec::uses_host_network(pod) && !brings_hosts {
            true => read_if_there(&settings.host_hosts).map_err(failed_at(&settings.host_hosts))?,
            false => Vec::new(),
        };
        if !brings_hosts && let Some(text) = hosts_file(pod, ips, &of_host, &settings.dns.cluster_domain) {
            let path = folder.etc_hosts();
            files::write_hosts(&path, &text).map_err(failed_at(&path))?;
            mounts.push(file_mount("etc-hosts", path, HOSTS));
        }
        if let Some(target) = container.termination_message_path.as_deref().filter(|path| !path.is_empty()) {
            let folder = folder.container(&container.name);
            let path = files::make_last_words_file(&folder, restart_count).map_err(failed_at(&folder))?;
            mounts.push(file_mount("termination-message", path, target));
        }
        Ok((environment, mounts))
    }
}

fn read_if_there(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn failed_at(path: &Path) -> impl Fn(io::Error) -> ConfigError + use<> {
    let path = path.to_owned();
    move |source| ConfigError::Files { path: path.clone(), source }
}

fn file_mount(volume: &str, host_path: PathBuf, container_path: &str) -> Mount {
    Mount {
        volume: volume.to_owned(),
        host_path,
        container_path: container_path.to_owned(),
        read_only: false,
        recursive_read_only: RecursiveReadOnly::Disabled,
        propagation: Propagation::Private,
        selinux_relabel: true,
    }
}
