//! What a pod and its containers need on this machine before they are requested from the runtime: a control group,
//! volumes, the files of a container. All of it blocks on disks; each is one trip off the async threads.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_cri::v1;

use rubelet_model::ContainerId;

use super::{Home, Outcome, Tools, Work};
use crate::cgroup::limits_itself;
use crate::disk::{Disk, Doing, Hangs, PATIENCE};
use crate::downward::PodFacts;
use crate::environment::Environment;
use crate::image::Resolved;
use crate::manifest::Objects;
use crate::pod::config::{ConfigError, ContainerParts, container_config, hosts_file, log_directory};
use crate::pod::demand::own;
use crate::pod::files;
use crate::pod::grants::Grants;
use crate::pod::journal::Journal;
use crate::pod::spec;
use crate::runtime::{ImageStore, Runtime};
use crate::user_ids::IdRange;
use crate::volumes::{
    self, Mount, Preparation, Prepared, Propagation, RecursiveReadOnly, VolumeError, absolute,
};

const HOSTS: &str = "/etc/hosts";

/// Why a pod with limits of its own does not run where pods have no control groups.
const NO_GROUPS: &str = "spec.resources.limits cannot be enforced, since pods have no control groups of their own \
                         here; set limits on the containers instead";

/// What is reported as being done to the disk until it is known for which volume.
const VOLUMES: &str = "volumes";

/// How long a kubelet waits for the volumes of a pod before it reports that they are missing.
const SET_UP_WITHIN: Duration = Duration::from_secs(123);

/// The time limit for all other work on disk for a pod.
const FILES_WITHIN: Duration = Duration::from_secs(30);

/// Reports volumes that are not as they should be.
fn tell_of_volumes(journal: &Journal, errors: &[VolumeError]) {
    for error in errors {
        journal.warning(None, "FailedMount", error.to_string());
    }
}

/// A container that is ready to be made.
pub(super) struct Furnished {
    pub(super) config: v1::ContainerConfig,
    /// The resources of the pod, including those of this container. They are on disk already, since a container that
    /// was made and not recorded would never be resized.
    pub(super) grants: Grants,
}

/// Returns the work that prepares the volumes of a pod, to be run where it may block.
fn volumes_to_prepare<R>(
    tools: &Arc<Tools<R>>,
    pod: &Arc<Pod>,
    objects: &Arc<Objects>,
    ips: &[IpAddr],
    ran_before: bool,
) -> impl FnOnce(&Doing) -> Preparation + Send + use<R>
where
    R: Runtime + ImageStore,
{
    let (tools, pod, objects, ips) = (tools.clone(), pod.clone(), objects.clone(), ips.to_vec());
    move |doing| {
        let logs = log_directory(&tools.settings.logs, &pod);
        if let Err(error) = std::fs::create_dir_all(&logs) {
            let missing = vec![VolumeError::io("create", &logs)(error)];
            return Preparation { missing, ..Preparation::default() };
        }
        let node = tools.settings.node_facts();
        let facts = PodFacts { pod: &pod, objects: &objects, node: &node, pod_ips: &ips };
        let begins = |volume: &str| doing.begins(format!("volume {volume:?}"));
        tools.volumes.prepare(&facts, crate::clock::now(), ran_before, begins)
    }
}

/// Rewrites what has changed in the volumes of a running pod, however long it takes; returns whether all are up to date
/// then. If that fails, the pod keeps what it has. A refresh that takes long is reported.
pub(crate) async fn refresh_volumes<R: Runtime + ImageStore>(
    tools: Arc<Tools<R>>,
    pod: Arc<Pod>,
    objects: Arc<Objects>,
    ips: Vec<IpAddr>,
    journal: Journal,
    disk: Disk,
) -> bool {
    let work = volumes_to_prepare(&tools, &pod, &objects, &ips, true);
    let mut refreshing = std::pin::pin!(disk.work(VOLUMES, work));
    let mut patience = PATIENCE;
    let Preparation { stale, missing, .. } = loop {
        match tokio::time::timeout(patience, &mut refreshing).await {
            Ok(done) => break done,
            Err(_) => {
                journal.warning(None, "FailedMount", disk.hangs().to_string());
                patience = SET_UP_WITHIN;
            }
        }
    };
    tell_of_volumes(&journal, &stale);
    tell_of_volumes(&journal, &missing);
    stale.is_empty() && missing.is_empty()
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Makes the pod's control group, if it is to have one, and its volumes, ready to be mounted; `None` if it must
    /// wait for them.
    pub(super) async fn furnish(&mut self, outcome: &mut Outcome) -> Option<Prepared> {
        let (tools, pod) = (self.tools.clone(), self.pod.clone());
        let made = self.with_files("its control group", move || match &tools.groups {
            None if limits_itself(&pod) => Err(NO_GROUPS.to_owned()),
            None => Ok(()),
            Some(groups) => groups.ensure(&pod, &tools.settings.machine).map_err(|error| error.to_string()),
        });
        if let Err(error) = made.await.unwrap_or_else(|hangs| Err(hangs.to_string())) {
            let message = format!("unable to ensure pod container exists: {error}");
            self.journal.warning(None, "FailedCreatePodContainer", message);
            outcome.hold(self.now().plus(self.tools.settings.retry));
            return None;
        }
        self.volumes(outcome).await
    }

    /// Makes the volumes of the pod ready to be mounted; `None` if it must wait for one that it never had. For volumes
    /// that it had, the earlier content is good enough.
    pub(super) async fn volumes(&mut self, outcome: &mut Outcome) -> Option<Prepared> {
        let done = self.prepare_volumes().await;
        let retry = self.now().plus(self.tools.settings.retry);
        let Some(Preparation { prepared, stale, missing }) = done else {
            outcome.hold(retry);
            return None;
        };
        tell_of_volumes(self.journal, &stale);
        tell_of_volumes(self.journal, &missing);
        if !missing.is_empty() {
            outcome.hold(retry);
            return None;
        }
        self.memory.furnished = Some(self.pod.clone());
        outcome.volumes_are_ready = stale.is_empty();
        if !stale.is_empty() {
            outcome.retry(retry);
        }
        Some(prepared)
    }

    /// Prepares the volumes; `None` if that takes too long. A pod that has had them does not wait for long: it takes
    /// them as they are.
    async fn prepare_volumes(&self) -> Option<Preparation> {
        let had_volumes = self.had_volumes();
        let disk = &self.unbroken.volumes;
        let work = volumes_to_prepare(self.tools, self.pod, self.objects, &self.status.ips, had_volumes);
        let mut preparing = std::pin::pin!(disk.work(VOLUMES, work));
        if let Ok(done) = tokio::time::timeout(disk.left_of(PATIENCE), &mut preparing).await {
            return Some(done);
        }
        if had_volumes {
            let prepared = self.tools.volumes.as_they_are(self.pod).ok()?;
            let stale = vec![VolumeError::Late { what: disk.hangs().what }];
            return Some(Preparation { prepared, stale, missing: Vec::new() });
        }
        self.journal.warning(None, "FailedMount", disk.hangs().to_string());
        let done = tokio::time::timeout(SET_UP_WITHIN - PATIENCE, &mut preparing).await;
        if done.is_err() {
            let what = disk.hangs().what;
            let message =
                format!("Unable to attach or mount volumes: timed out waiting for the condition: {what}");
            self.journal.warning(None, "FailedMount", message);
        }
        done.ok()
    }

    /// Whether this agent has given the pod exactly these volumes. They survive the removal of its sandbox, but a
    /// reboot may take them away, and an edit of the manifest may add one.
    fn had_volumes(&self) -> bool {
        self.memory.furnished.as_ref().is_some_and(|pod| volumes::are_the_same(pod, self.pod))
    }

    /// Works on the files of the pod, within a time limit: the pod is not looked at in the meantime.
    pub(super) async fn with_files<T: Send + 'static>(
        &self,
        what: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Hangs> {
        self.unbroken.files.work_within(FILES_WITHIN, what, move |_| work()).await
    }

    /// Builds everything that the runtime is told about a container, and the files that this refers to.
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
            least_number: self.memory.restarts.next(&container.name, newest.map(|newest| &newest.id)),
            ended: self.status.instances(&container.name).map(|instance| instance.id.clone()).collect(),
            grants: self.memory.grants.clone(),
        };
        let what = format!("the files of container {:?}", container.name);
        self.with_files(what, move || furnishing.run()).await?
    }
}

struct Furnishing<R> {
    tools: Arc<Tools<R>>,
    pod: Arc<Pod>,
    objects: Arc<Objects>,
    container: Container,
    prepared: Prepared,
    ips: Vec<IpAddr>,
    users: Option<IdRange>,
    image: Resolved,
    /// The number of the instance, if the runtime knows the earlier ones.
    number: Option<u32>,
    /// The least number by what was published: the runtime may know an instance, but not the newest.
    least_number: u32,
    /// The earlier instances: this one is made when none of them runs.
    ended: Vec<ContainerId>,
    grants: Grants,
}

impl<R> Furnishing<R> {
    fn run(mut self) -> Result<Furnished, ConfigError> {
        let settings = &self.tools.settings;
        if let Some(groups) = &self.tools.groups {
            groups.end_remnants(&self.pod, &self.ended);
        }
        let by_logs = || {
            let logs = log_directory(&settings.logs, &self.pod);
            files::restart_count_by_logs(&logs, &self.container.name)
        };
        let restart_count = self.number.unwrap_or_else(by_logs).max(self.least_number);
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
        let (resources, of_pod) = (self.container.resources.as_ref(), own(&self.pod));
        self.grants.give(&self.container.name, restart_count, resources, of_pod);
        let path = settings.data.pod(spec::uid(&self.pod).as_str())?.resources();
        self.grants.note(&path, &spec::pod_ref(&self.pod));
        Ok(Furnished { config, grants: self.grants })
    }

    /// Builds the environment of a container and everything that is mounted into it.
    fn surroundings(&self, restart_count: u32) -> Result<(Environment, Vec<Mount>), ConfigError> {
        let Self { tools, pod, objects, container, prepared, ips, .. } = self;
        let settings = &tools.settings;
        let node = settings.node_facts();
        let facts = PodFacts { pod, objects, node: &node, pod_ips: ips };
        let environment = Environment::of(container, &facts)?;
        let uid = spec::uid(pod);
        let mut mounts = tools.volumes.mounts(uid.as_str(), prepared, container, &environment)?;
        let folder = settings.data.pod(uid.as_str())?;
        let brings_hosts = mounts.iter().any(|mount| mount.container_path == HOSTS);
        if !brings_hosts {
            let of_host = match spec::uses_host_network(pod) {
                true => read_if_there(&settings.host_hosts).map_err(failed_at(&settings.host_hosts))?,
                false => Vec::new(),
            };
            let text = hosts_file(pod, ips, &of_host, &settings.dns.cluster_domain);
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
        container_path: absolute(container_path),
        read_only: false,
        recursive_read_only: RecursiveReadOnly::Disabled,
        propagation: Propagation::Private,
        selinux_relabel: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_one_of_the_root() {
        for path in ["/dev/termination-log", "dev/termination-log"] {
            let mount = file_mount("termination-message", "/data/words".into(), path);
            assert_eq!(mount.container_path, "/dev/termination-log");
        }
    }
}
