//! The life of a pod sandbox: the operations on it.

mod names;
mod plan;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use prost::Message as _;
use rubelet_cri::v1::{self, ContainerEventType};

use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};
use crate::embedded::record::SandboxRecord;
use crate::embedded::registry::Sandbox;
use crate::embedded::runtime::{Runtime, blocking};
use crate::embedded::state::SandboxState;
use crate::embedded::store::{self, Durability};
use crate::embedded::{clock, id, namespaces};

use self::plan::Plan;

/// The file with the control groups that were created for a sandbox and are removed with it, deepest first. Written
/// before the first one is created.
const MADE_GROUPS: &str = "groups.json";

/// The root of control groups whose parent is not specified.
const DEFAULT_CGROUP: &str = "/rubelet";

impl Runtime {
    /// `RunPodSandbox`.
    pub(crate) async fn run_sandbox(self: &Arc<Self>, request: v1::RunPodSandboxRequest) -> Result<String> {
        if !request.runtime_handler.is_empty() {
            return Err(Error::unsupported(
                "runtime_handler",
                format!("there is no handler {:?}", request.runtime_handler),
            ));
        }
        let config = request.config.ok_or_else(|| Error::invalid("config", "is missing"))?;
        let plan = Plan::of(&config, &self.facts.cgroups)?;
        let id = id::random()?;
        let meta = config.metadata.clone().unwrap_or_default();
        let name = format!("{}_{}_{}_{}", meta.name, meta.namespace, meta.uid, meta.attempt);
        self.registry.reserve(&name, &id)?;
        match self.make_sandbox(&id, config, plan).await {
            Ok(sandbox) => {
                self.registry.add_sandbox(Arc::clone(&sandbox));
                self.watch_pause(&sandbox);
                for kind in
                    [ContainerEventType::ContainerCreatedEvent, ContainerEventType::ContainerStartedEvent]
                {
                    self.events.publish(kind, &id, &sandbox, &self.registry);
                }
                Ok(id)
            }
            Err(error) => {
                if let Err(cleanup) = self.discard_sandbox(&id).await {
                    tracing::error!(sandbox = id, error = %cleanup, "cannot clean up after a sandbox that could not \
                                                                     be created");
                }
                self.registry.release(&name, &id);
                Err(error)
            }
        }
    }

    async fn make_sandbox(
        self: &Arc<Self>,
        id: &str,
        config: v1::PodSandboxConfig,
        plan: Plan,
    ) -> Result<Arc<Sandbox>> {
        let folder = self.layout.sandbox(id);
        let cgroup = plan.cgroup(id);
        let made_groups = missing_groups(&self.facts.cgroups, &cgroup);
        let (making, hostname) = (folder.clone(), plan.hostname.clone());
        let (held, request) = (plan.held, config.clone());
        blocking(move || {
            store::make_dir(&making)?;
            store::write(&making.join(store::REQUEST), &request.encode_to_vec(), Durability::Process)?;
            store::write_json(&making.join(MADE_GROUPS), &made_groups, Durability::Process)?;
            names::write_files(&making, &request, &hostname)?;
            namespaces::hold(&making, held, &hostname)
        })
        .await?;
        let ips = match &self.cni {
            Some(cni) if plan.held.network => cni.add(&folder, id, &config).await?,
            _ => {
                plan::refuse_ports(&config, plan.held.network)?;
                Vec::new()
            }
        };
        let (namespaces_of, sysctls) = (folder.clone(), plan.sysctls);
        blocking(move || namespaces::set_sysctls(&namespaces_of, held, sysctls)).await?;
        let pause = if plan.shared_pids {
            Some(self.start_pause(id, &folder, plan.held, &cgroup).await?)
        } else {
            None
        };
        let record = SandboxRecord {
            id: id.to_owned(),
            created_at: clock::now(),
            state: SandboxState::Ready,
            ips,
            cgroup,
            held: plan.held,
            pause,
        };
        let (path, written) = (folder.join(store::RECORD_SANDBOX), record.clone());
        // Written last: with this record, the sandbox exists.
        blocking(move || store::write_json(&path, &written, Durability::Process)).await?;
        Ok(Sandbox::new(record, config))
    }

    /// `StopPodSandbox`: ends its containers, removes its network and namespaces, and keeps its description. A sandbox
    /// that does not exist is no error.
    pub(crate) async fn stop_sandbox(self: &Arc<Self>, wanted: &str) -> Result<()> {
        match self.registry.sandbox(wanted) {
            Ok(sandbox) => {
                let _work = sandbox.work.lock().await;
                self.take_down(&sandbox).await
            }
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Must be called with the sandbox's lock held.
    async fn take_down(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<()> {
        let was_ready = self.mark_not_ready(sandbox).await?;
        let containers = self.registry.containers_of(&sandbox.id);
        let mut stops = tokio::task::JoinSet::new();
        for container in containers {
            let runtime = Arc::clone(self);
            stops.spawn(async move { runtime.stop(&container, 0).await });
        }
        while let Some(stopped) = stops.join_next().await {
            stopped.map_err(|error| Error::Internal(error.to_string()))??;
        }
        self.let_go(&sandbox.id).await?;
        if was_ready {
            self.events.publish(
                ContainerEventType::ContainerStoppedEvent,
                &sandbox.id,
                sandbox,
                &self.registry,
            );
        }
        Ok(())
    }

    /// Records that nothing new may start in the sandbox. Returns true if this is a change.
    pub(crate) async fn mark_not_ready(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool> {
        let record = {
            let mut record = sandbox.record.write();
            if record.state == SandboxState::NotReady {
                return Ok(false);
            }
            record.state = SandboxState::NotReady;
            record.clone()
        };
        let path = self.layout.sandbox(&sandbox.id).join(store::RECORD_SANDBOX);
        blocking(move || store::write_json(&path, &record, Durability::Process)).await?;
        Ok(true)
    }

    /// Releases what a sandbox holds outside of its folder. May be repeated, and works on an incomplete sandbox.
    pub(crate) async fn let_go(self: &Arc<Self>, id: &str) -> Result<()> {
        let folder = self.layout.sandbox(id);
        self.end_pause(&folder).await;
        if let Some(cni) = &self.cni {
            cni.delete(&folder, id).await?;
        } else if crate::embedded::cni::is_attached(&folder) {
            tracing::warn!(
                sandbox = id,
                "its network was set up by CNI, but no CNI configuration is given now"
            );
        }
        blocking(move || namespaces::release(&folder)).await
    }

    /// `RemovePodSandbox`: removes the containers in it as well. A sandbox that does not exist is no error.
    pub(crate) async fn remove_sandbox(self: &Arc<Self>, wanted: &str) -> Result<()> {
        let sandbox = match self.registry.sandbox(wanted) {
            Ok(sandbox) => sandbox,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let _work = sandbox.work.lock().await;
        if self.registry.sandbox(&sandbox.id).is_err() {
            return Ok(());
        }
        self.take_down(&sandbox).await?;
        for container in self.registry.containers_of(&sandbox.id) {
            self.remove(&container).await?;
        }
        self.discard_sandbox(&sandbox.id).await?;
        self.registry.drop_sandbox(&sandbox.id);
        self.registry.release(&sandbox.name(), &sandbox.id);
        self.events.publish(ContainerEventType::ContainerDeletedEvent, &sandbox.id, &sandbox, &self.registry);
        Ok(())
    }

    /// Removes a sandbox's folder, the record first, after releasing what it holds.
    pub(crate) async fn discard_sandbox(self: &Arc<Self>, id: &str) -> Result<()> {
        self.let_go(id).await?;
        // A group with this name belongs to us alone, whatever is in it.
        self.end_group(&format!("{DEFAULT_CGROUP}/{id}")).await;
        let folder = self.layout.sandbox(id);
        let cgroups = self.facts.cgroups.clone();
        blocking(move || {
            let made: Vec<String> =
                store::read_json(&folder.join(MADE_GROUPS)).unwrap_or_default().unwrap_or_default();
            for group in &made {
                cgroups.remove_empty(group);
            }
            match fs::remove_file(folder.join(store::RECORD_SANDBOX)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(format!("remove the record in {}", folder.display()), error));
                }
                _ => {}
            }
            store::remove_dir(&folder)
        })
        .await
    }
}

/// Returns the groups on the path to this one that do not exist yet, deepest first: whoever creates them removes them.
fn missing_groups(cgroups: &Cgroups, group: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut path = Path::new(group);
    while path.parent().is_some() && path != Path::new(DEFAULT_CGROUP) {
        let text = path.to_string_lossy().into_owned();
        if cgroups.exists(&text) {
            break;
        }
        missing.push(text);
        path = path.parent().unwrap_or(Path::new("/"));
    }
    missing
}

/// Returns the group that a config asks for, for tests.
#[cfg(test)]
pub(crate) fn planned_cgroup(config: &v1::PodSandboxConfig, cgroups: &Cgroups) -> Result<String> {
    Plan::of(config, cgroups).map(|plan| plan.cgroup("id"))
}
