//! The life of a container: the operations on it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rubelet_cri::v1::{self, ContainerEventType};

use super::cgroup::Cgroups;
use super::error::{Error, Result};
use super::facts::Facts;
use super::record::ContainerRecord;
use super::registry::{Container, Sandbox, container_name};
use super::runtime::{Runtime, blocking};
use super::shim::mount_ns::{self, ROOTFS};
use super::shim::protocol::{Command, Report};
use super::shim::settings::{self, Confinement, Payload, RootfsPlan, Settings};
use super::spec::{self, Namespace, Namespaces, SandboxFiles};
use super::state::{ContainerState, Exit, SandboxState};
use super::store::{self, Durability};
use super::user::{self, Wanted};
use super::{clock, enums, id, image_volumes, namespaces, propagation, rootfs, seccomp, supervise};
use crate::image::Image;

/// The OCI spec in a container's folder.
pub(crate) const SPEC: &str = "config.json";

/// How long a killed container may take to disappear before the caller gets an error.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

impl Runtime {
    /// `CreateContainer`: creates a folder with everything in it, but no process yet.
    pub(crate) async fn create_container(
        self: &Arc<Self>,
        request: v1::CreateContainerRequest,
    ) -> Result<String> {
        let config = request.config.ok_or_else(|| Error::invalid("config", "is missing"))?;
        let meta = config.metadata.clone().ok_or_else(|| Error::invalid("config.metadata", "is missing"))?;
        if meta.name.is_empty() {
            return Err(Error::invalid("config.metadata.name", "is empty"));
        }
        let sandbox = self.registry.sandbox(&request.pod_sandbox_id)?;
        enums::check_container(&config)?;
        let _work = sandbox.work.lock().await;
        if sandbox.state() != SandboxState::Ready {
            return Err(Error::State(format!("pod sandbox {} is not ready", sandbox.id)));
        }
        let id = id::random()?;
        let name = container_name(&meta, &sandbox);
        self.registry.reserve(&name, &id)?;
        let (runtime, holder, new_id) = (Arc::clone(self), Arc::clone(&sandbox), id.clone());
        let made = blocking(move || runtime.make_container(&new_id, config, &holder)).await;
        match made {
            Ok(container) => {
                self.registry.add_container(Arc::clone(&container));
                self.publish_container(ContainerEventType::ContainerCreatedEvent, &container);
                Ok(id)
            }
            Err(error) => {
                self.registry.release(&name, &id);
                let runtime = Arc::clone(self);
                let _ = blocking(move || runtime.discard_container(&id)).await;
                Err(error)
            }
        }
    }

    fn make_container(
        &self,
        id: &str,
        config: v1::ContainerConfig,
        sandbox: &Sandbox,
    ) -> Result<Arc<Container>> {
        let wanted = config.image.clone().unwrap_or_default().image;
        let image = self.images.resolve(&wanted).map_err(|error| image_error(&error, &wanted))?;
        let folder = self.layout.container(id);
        store::make_dir(&folder)?;
        // From here on the image's layers are kept, whatever happens to the image.
        self.images.lease(id, &image).map_err(|error| Error::Image(error.to_string()))?;
        let plan = rootfs::plan(&self.images, &image);
        let user = find_user(&config, &image, &plan, &self.facts)?;
        let cgroup = if sandbox.record.read().cgroup.is_empty() {
            String::new()
        } else {
            format!("{}/{id}", sandbox.record.read().cgroup)
        };
        let namespaces = self.namespaces_for(&config, sandbox)?;
        let devices = spec::devices::look_up(&config)?;
        for (index, mount) in config.mounts.iter().enumerate() {
            make_source(index, mount)?;
            propagation::check(index, mount)?;
        }
        let volumes = image_volumes::places(&image.config, &config)?;
        image_volumes::make(&folder, &volumes)?;
        let sources = volumes
            .iter()
            .enumerate()
            .map(|(number, place)| (place.clone(), image_volumes::source(&folder, number)));
        let mut spec = spec::build(&spec::Input {
            config: &config,
            sandbox: &sandbox.config,
            image: &image.config,
            host_image: image.is_built_in(),
            user: &user,
            namespaces: &namespaces,
            files: &self.sandbox_files(sandbox),
            image_volumes: &sources.collect::<Vec<_>>(),
            devices: &devices,
            cgroup: &cgroup,
            rootfs: &folder.join(ROOTFS),
            facts: &self.facts,
        })?;
        let rights = spec::take_rights(&mut spec);
        let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        let filter = seccomp::filter(context, &rights.bounding)?;
        let score =
            config.linux.as_ref().and_then(|linux| linux.resources.as_ref()).map_or(0, |r| r.oom_score_adj);
        self.note_oom_score(score);
        let shared_mounts = spec::spreads_back(&config);
        if shared_mounts {
            mount_ns::make_private_mount(&folder)?;
        }
        let log_path = log_path(&sandbox.config.log_directory, &config.log_path)?;
        if let Some(parent) = log_path.as_deref().and_then(std::path::Path::parent) {
            std::fs::create_dir_all(parent)
                .map_err(|error| Error::io(format!("create {}", parent.display()), error))?;
        }
        let settings = Settings {
            id: id.to_owned(),
            log_path: log_path.clone(),
            stdin: config.stdin,
            tty: config.tty,
            cgroup: cgroup.clone(),
            open_files: self.facts.open_files,
            own_pid_namespace: namespaces.pid == Namespace::New,
            rootfs: rootfs::with_mounts(
                plan,
                &spec,
                self.layout.root(),
                context.is_some_and(|context| context.readonly_rootfs),
            ),
            image_volumes: volumes,
            shared_mounts,
            payload: Payload::Program(Confinement { rights: rights.bits(), filtered: filter.is_some() }),
        };
        let record = ContainerRecord {
            id: id.to_owned(),
            sandbox: sandbox.id.clone(),
            created_at: clock::now(),
            image_id: image.id.to_string(),
            image_tag: if image.is_built_in() { None } else { image.repo_tags.first().cloned() },
            image_ref: image.repo_digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
            user,
            stop_signal: spec::stop_signal(config.stop_signal(), image.config.stop_signal.as_deref())?,
            log_path: log_path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            cgroup,
        };
        if let Some(filter) = &filter {
            store::write(&folder.join(seccomp::FILE), &filter.to_bytes(), Durability::Process)?;
        }
        store::write_json(&folder.join(SPEC), &spec, Durability::Process)?;
        store::write_json(&folder.join(settings::FILE), &settings, Durability::Process)?;
        store::write(&folder.join(store::REQUEST), &config.encode_to_vec(), Durability::Process)?;
        // Written last: with this record, the container exists.
        store::write_json(&folder.join(store::RECORD_CONTAINER), &record, Durability::Process)?;
        let room = self.room.of_one(self.facts.open_files);
        Ok(Container::new(record, config, ContainerState::Created, room))
    }

    fn sandbox_files(&self, sandbox: &Sandbox) -> SandboxFiles {
        let folder = self.layout.sandbox(&sandbox.id);
        let held = sandbox.record.read().held;
        SandboxFiles {
            shm: held.ipc.then(|| folder.join(namespaces::SHM)),
            hosts: folder.join("hosts"),
            hostname: folder.join("hostname"),
            resolv_conf: folder.join("resolv.conf"),
        }
    }

    fn namespaces_for(&self, config: &v1::ContainerConfig, sandbox: &Sandbox) -> Result<Namespaces> {
        let options = config
            .linux
            .as_ref()
            .and_then(|linux| linux.security_context.as_ref())
            .and_then(|context| context.namespace_options.clone())
            .unwrap_or_default();
        let record = sandbox.record.read();
        const OPTIONS: &str = "linux.security_context.namespace_options";
        for (name, mode, own) in
            [("network", options.network(), record.held.network), ("ipc", options.ipc(), record.held.ipc)]
        {
            // The reverse is fine: a request that leaves the mode out asks for the pod's, whatever that is.
            if mode == v1::NamespaceMode::Node && own {
                let problem = "the pod has its own, which its containers share";
                return Err(Error::invalid(format!("{OPTIONS}.{name}"), problem));
            }
        }
        let ns = self.layout.sandbox(&sandbox.id).join(namespaces::NS);
        let held = |own: bool, name: &str| if own { Namespace::Join(ns.join(name)) } else { Namespace::Host };
        const FIELD: &str = "linux.security_context.namespace_options.pid";
        let pid = match options.pid() {
            v1::NamespaceMode::Container => Namespace::New,
            _ if self.facts.cgroups == Cgroups::None => {
                let problem = "without control groups, leftover processes of a container could not be told from \
                               those of others: use CONTAINER";
                return Err(Error::unsupported(FIELD, problem));
            }
            v1::NamespaceMode::Node => Namespace::Host,
            v1::NamespaceMode::Pod => match record.pause {
                Some(pid) => Namespace::Join(PathBuf::from(format!("/proc/{pid}/ns/pid"))),
                None => return Err(Error::invalid(FIELD, "the sandbox has no process namespace to share")),
            },
            v1::NamespaceMode::Target => {
                let target = self.registry.container(&options.target_id)?;
                if target.record.sandbox != sandbox.id {
                    return Err(Error::invalid(FIELD, "the target container is in another pod"));
                }
                match target.state() {
                    ContainerState::Running { pid, .. } => {
                        Namespace::Join(PathBuf::from(format!("/proc/{pid}/ns/pid")))
                    }
                    other => {
                        return Err(Error::invalid(
                            FIELD,
                            format!("the target container is {}", other.name()),
                        ));
                    }
                }
            }
        };
        Ok(Namespaces {
            pid,
            ipc: held(record.held.ipc, "ipc"),
            uts: held(record.held.uts, "uts"),
            network: held(record.held.network, "net"),
        })
    }

    /// `StartContainer`.
    pub(crate) async fn start_container(self: &Arc<Self>, wanted: &str) -> Result<()> {
        let container = self.registry.container(wanted)?;
        let _work = container.work.lock().await;
        let state = container.state();
        if !state.can_start() {
            return Err(Error::State(format!("container {} is {}", container.id(), state.name())));
        }
        // Set the state first, then check the sandbox: a concurrent stop of it then either refuses us or waits for us.
        container.state.send_replace(ContainerState::Starting);
        let ready = self.registry.sandbox(&container.record.sandbox).map(|sandbox| sandbox.state());
        if !matches!(ready, Ok(SandboxState::Ready)) {
            container.state.send_replace(ContainerState::Created);
            return Err(Error::State(format!("pod sandbox {} is not ready", container.record.sandbox)));
        }
        let link =
            supervise::spawn(&self.shim, &self.layout.container(container.id())).and_then(supervise::adopt);
        let mut link = match link {
            Ok(link) => link,
            Err(error) => return Err(self.fail_start(&container, error.to_string()).await),
        };
        match supervise::next(&mut link).await {
            Some(Report::Started { pid, at }) => {
                self.remember_process(container.id(), pid).await;
                container.state.send_replace(ContainerState::Running { pid, started_at: at });
                self.publish_container(ContainerEventType::ContainerStartedEvent, &container);
                // Only now, so that nobody learns of its end before its start.
                self.watch(container.clone(), link);
                Ok(())
            }
            ended => {
                self.finish(&container, ended.and_then(Report::into_end)).await;
                let message = match container.state() {
                    ContainerState::Exited(exit) => exit.message(),
                    other => other.name().to_owned(),
                };
                Err(Error::Start { id: container.id().to_owned(), message })
            }
        }
    }

    /// Records the end of a start that did not even reach a shim.
    async fn fail_start(self: &Arc<Self>, container: &Arc<Container>, message: String) -> Error {
        let exit = Exit::start_failed(&message, clock::now());
        let (path, written) = (self.layout.container(container.id()).join(store::EXIT), exit.clone());
        let _ = blocking(move || store::write_json(&path, &written, Durability::Power)).await;
        container.state.send_replace(ContainerState::Exited(exit));
        self.publish_container(ContainerEventType::ContainerStoppedEvent, container);
        Error::Start { id: container.id().to_owned(), message }
    }

    /// `StopContainer`: sends a signal, waits for the grace period, then kills the whole tree. A container that does
    /// not exist or does not run is no error.
    pub(crate) async fn stop_container(self: &Arc<Self>, wanted: &str, grace: i64) -> Result<()> {
        let container = match self.registry.container(wanted) {
            Ok(container) => container,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.stop(&container, grace).await
    }

    pub(crate) async fn stop(self: &Arc<Self>, container: &Arc<Container>, grace: i64) -> Result<()> {
        let mut state = container.state.subscribe();
        // A start in progress soon ends one way or the other; if its shim hangs, the kill below does not need it.
        let settled = state.wait_for(|state| *state != ContainerState::Starting);
        let _ = tokio::time::timeout(KILL_PATIENCE, settled).await;
        if container.state().is_stopped() {
            return Ok(());
        }
        let folder = self.layout.container(container.id());
        if grace > 0 {
            let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            let obeys = async {
                // It does not matter if the shim is gone or unresponsive: the kill below does not need it.
                let _ = supervise::ask(&folder, Command::Signal(container.record.stop_signal)).await;
                state.wait_for(ContainerState::is_stopped).await.is_ok()
            };
            if tokio::time::timeout(grace, obeys).await.is_ok() {
                return Ok(());
            }
        }
        let _ = supervise::ask(&folder, Command::Kill).await;
        let (cgroups, group) = (self.facts.cgroups.clone(), container.record.cgroup.clone());
        blocking(move || {
            cgroups.kill(&group);
            Ok(())
        })
        .await?;
        match tokio::time::timeout(KILL_PATIENCE, state.wait_for(ContainerState::is_stopped)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::State(format!(
                "container {} was killed {} s ago and still exists",
                container.id(),
                KILL_PATIENCE.as_secs()
            ))),
        }
    }

    /// `RemoveContainer`: kills the container first if it runs. One that does not exist is no error.
    pub(crate) async fn remove_container(self: &Arc<Self>, wanted: &str) -> Result<()> {
        match self.registry.container(wanted) {
            Ok(container) => self.remove(&container).await,
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn remove(self: &Arc<Self>, container: &Arc<Container>) -> Result<()> {
        let _work = container.work.lock().await;
        if self.registry.container(container.id()).is_err() {
            return Ok(());
        }
        self.stop(container, 0).await?;
        self.end_group(&container.record.cgroup).await;
        let (runtime, id) = (Arc::clone(self), container.id().to_owned());
        blocking(move || runtime.discard_container(&id)).await?;
        let sandbox = self.registry.sandbox(&container.record.sandbox);
        self.registry.drop_container(container.id());
        if let Ok(sandbox) = sandbox {
            self.registry.release(&container.name(&sandbox), container.id());
        }
        self.publish_container(ContainerEventType::ContainerDeletedEvent, container);
        Ok(())
    }

    /// Removes a container's folder, the record first: without a record, the container does not exist.
    pub(crate) fn discard_container(&self, id: &str) -> Result<()> {
        let folder = self.layout.container(id);
        match std::fs::remove_file(folder.join(store::RECORD_CONTAINER)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(format!("remove the record of {id}"), error));
            }
            _ => {}
        }
        mount_ns::undo_private_mount(&folder)?;
        store::remove_dir(&folder)?;
        self.images.release(id).map_err(|error| Error::Image(error.to_string()))
    }

    /// `ReopenContainerLog`.
    pub(crate) async fn reopen_log(&self, wanted: &str) -> Result<()> {
        let container = self.registry.container(wanted)?;
        let state = container.state();
        if !state.can_reopen_log() {
            return Err(Error::State(format!("container {} is {}", container.id(), state.name())));
        }
        if supervise::ask(&self.layout.container(container.id()), Command::Reopen).await? {
            Ok(())
        } else {
            Err(Error::State(format!("container {} has just exited", container.id())))
        }
    }
}

fn image_error(error: &crate::image::StoreError, wanted: &str) -> Error {
    if error.is_not_found() {
        Error::NotFound { kind: "image", id: wanted.to_owned() }
    } else {
        Error::Image(error.to_string())
    }
}

fn find_user(
    config: &v1::ContainerConfig,
    image: &Image,
    plan: &RootfsPlan,
    facts: &Facts,
) -> Result<user::User> {
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.clone()).unwrap_or_default();
    let wanted = Wanted {
        run_as_user: context.run_as_user.as_ref().map(|value| value.value),
        run_as_username: &context.run_as_username,
        run_as_group: context.run_as_group.as_ref().map(|value| value.value),
        supplemental_groups: &context.supplemental_groups,
        merge_image_groups: context.supplemental_groups_policy() == v1::SupplementalGroupsPolicy::Merge,
        image_user: &image.config.user,
    };
    let passwd = rootfs::read(plan, "/etc/passwd")?.unwrap_or_default();
    let group = rootfs::read(plan, "/etc/group")?.unwrap_or_default();
    user::admit(user::resolve(&wanted, &passwd, &group)?, &wanted, facts)
}

/// Creates an empty folder for a volume's source that does not exist, as other runtimes do.
fn make_source(index: usize, mount: &v1::Mount) -> Result<()> {
    if !mount.host_path.starts_with('/') || std::fs::symlink_metadata(&mount.host_path).is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(&mount.host_path)
        .map_err(|error| Error::io(format!("create mounts[{index}].host_path {}", mount.host_path), error))
}

/// Returns the path of the log, which must lie below the pod's folder.
pub(crate) fn log_path(directory: &str, path: &str) -> Result<Option<PathBuf>> {
    if directory.is_empty() || path.is_empty() {
        return Ok(None);
    }
    let is_plain = |part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir);
    if !std::path::Path::new(path).components().all(is_plain) {
        return Err(Error::invalid("log_path", "is not a path below log_directory"));
    }
    Ok(Some(PathBuf::from(directory).join(path)))
}
