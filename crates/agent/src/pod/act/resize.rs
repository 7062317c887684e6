//! Gives running containers the resources of a changed manifest.
//!
//! The runtime gets the new size of the sandbox first. The control group of the pod is widened before its containers
//! change, and narrowed afterwards; memory comes before cpu, and for each resource decreases come before increases.
//! What was accepted is recorded at once, so that whatever is cut short continues where it was.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::Container;
use rubelet_model::{ContainerId, ContainerState, ContainerStatus};

use super::{Outcome, Work};
use crate::pod::config::{PodAmounts, pod_amounts, resized, sandbox_resources};
use crate::pod::demand::own;
use crate::pod::grants::PodGrant;
use crate::pod::plan::Resize;
use crate::pod::resize::{Resource, Size, holding, resize_message};
use crate::pod::spec;
use crate::resource::Quantity;
use crate::runtime::{ImageStore, Runtime};

/// One change: a container and one of its resources.
struct Step {
    id: ContainerId,
    container: Container,
    resource: Resource,
    had: Size,
    gets: Size,
}

impl Step {
    fn is_less(&self) -> bool {
        self.gets.compare(self.had) == Ordering::Less
    }
}

impl<R: Runtime + ImageStore> Work<'_, R> {
    /// Changes the resources of the pod and its containers.
    pub(super) async fn resize(&mut self, Resize(containers): &Resize, outcome: &mut Outcome) {
        let now = self.now();
        if let Some(until) = self.memory.resize_after.filter(|until| now < *until) {
            outcome.retry(until);
            return;
        }
        match self.resize_in_place(containers, outcome).await {
            Ok(()) => (self.memory.resize_after, self.memory.resize_error) = (None, None),
            Err(message) => {
                self.memory.resize_error = Some(message.clone());
                self.journal.warning(None, "ResizeError", resize_message(self.pod, "error", Some(&message)));
                tracing::warn!(pod = %spec::pod_ref(self.pod), message, "cannot resize a pod");
                let until = self.now().plus(self.tools.settings.retry);
                self.memory.resize_after = Some(until);
                outcome.retry(until);
            }
        }
    }

    async fn resize_in_place(&mut self, ids: &[ContainerId], outcome: &mut Outcome) -> Result<(), String> {
        let steps = self.steps(ids);
        let wanted = pod_amounts(self.pod, &self.tools.settings.machine);
        let given = self.memory.grants.pod.as_ref().map(|given| given.amounts.clone());
        self.leaves_enough_memory(&steps).await?;
        self.leaves_pod_enough_memory(given.as_ref(), &wanted).await?;
        outcome.acted = true;
        self.resize_sandbox().await?;
        self.set_group(given.map_or_else(|| wanted.clone(), |given| wanted.or_more(&given))).await?;
        for step in &steps {
            self.resize_container(step).await?;
        }
        self.set_group(wanted.clone()).await?;
        self.memory.grants.pod = Some(PodGrant::of(self.pod, wanted));
        self.save_grants().await;
        Ok(())
    }

    /// Returns the changes to make, in order.
    fn steps(&self, ids: &[ContainerId]) -> Vec<Step> {
        let mut all = Vec::new();
        for resource in Resource::ALL {
            let mut steps: Vec<Step> = ids.iter().filter_map(|id| self.step(id, resource)).collect();
            steps.sort_by_key(|step| !step.is_less());
            all.extend(steps);
        }
        all
    }

    fn step(&self, id: &ContainerId, resource: Resource) -> Option<Step> {
        let instance = self.status.container(id)?;
        let container = spec::all_containers(self.pod).find(|one| *one.name == *instance.name)?;
        let had = Size::of(Some(&self.memory.grants.holding(instance, self.pod)?), resource);
        let gets = Size::of(Some(&holding(container.resources.as_ref(), own(self.pod))), resource);
        (had != gets).then(|| Step { id: id.clone(), container: container.clone(), resource, had, gets })
    }

    /// Fails if a container would get less memory than it uses: it would be killed for it.
    async fn leaves_enough_memory(&self, steps: &[Step]) -> Result<(), String> {
        for step in steps.iter().filter(|step| step.resource == Resource::Memory && step.is_less()) {
            let Some(limit) = step.gets.limit.map(Quantity::units) else { continue };
            let used = self.tools.runtime.memory_used(&step.id).await.map_err(|error| error.to_string())?;
            if let Some(used) = used.filter(|used| i64::try_from(*used).is_ok_and(|used| used >= limit)) {
                let name = &step.container.name;
                return Err(format!(
                    "attempting to set container {name:?} memory limit ({limit}) below current usage ({used})"
                ));
            }
        }
        Ok(())
    }

    /// Fails if the pod as a whole would get less memory than it uses: one of its processes would be killed for it.
    async fn leaves_pod_enough_memory(
        &self,
        given: Option<&PodAmounts>,
        wanted: &PodAmounts,
    ) -> Result<(), String> {
        let had = given.and_then(|given| given.memory);
        let Some(limit) = wanted.memory.filter(|limit| had.is_none_or(|had| *limit < had)) else {
            return Ok(());
        };
        let mut used = 0_u64;
        let runs =
            |one: &&ContainerStatus| one.state == ContainerState::Running && !self.memory.is_ending(&one.id);
        for one in self.status.containers.iter().filter(runs) {
            let its = self.tools.runtime.memory_used(&one.id).await.map_err(|error| error.to_string())?;
            used = used.saturating_add(its.unwrap_or(0));
        }
        if i64::try_from(used).is_ok_and(|used| used < limit) {
            return Ok(());
        }
        Err(format!("attempting to set pod memory limit ({limit}) below current usage ({used})"))
    }

    async fn resize_container(&mut self, step: &Step) -> Result<(), String> {
        let Step { id, container, resource, had, .. } = step;
        let had_limit = had.limit.is_some();
        let resources = resized(self.pod, container, *resource, had_limit, &self.tools.settings.machine);
        let (runtime, id) = (self.tools.runtime.clone(), id.clone());
        let call = self.unbroken.call(async move { runtime.resize_container(&id, resources).await });
        call.await.map_err(|error| {
            format!("container {:?}: cannot change its {}: {error}", container.name, resource.name())
        })?;
        let (now, of_pod) = (container.resources.as_ref(), own(self.pod));
        self.memory.grants.change(&container.name, *resource, now, of_pod);
        self.save_grants().await;
        Ok(())
    }

    /// Tells the runtime the resources of the pod as a whole: the sandbox may have to grow with it.
    async fn resize_sandbox(&self) -> Result<(), String> {
        let Some(sandbox) = self.status.active_sandbox() else { return Ok(()) };
        let (resources, overhead) = sandbox_resources(self.pod, &self.tools.settings.machine);
        let (runtime, id) = (self.tools.runtime.clone(), sandbox.id.clone());
        let call = async move { runtime.resize_sandbox(&id, resources, overhead).await };
        self.unbroken.call(call).await.map_err(|error| format!("cannot change the sandbox: {error}"))
    }

    /// Sets the resources of the pod as a whole.
    async fn set_group(&mut self, amounts: PodAmounts) -> Result<(), String> {
        if let Some(groups) = self.tools.groups.clone() {
            let (settings, pod, gets) = (self.tools.settings.clone(), self.pod.clone(), amounts.clone());
            let set = move || groups.set(&pod, &gets, &settings.machine);
            let set = self.with_files("its control group", set).await.map_err(|error| error.to_string())?;
            set.map_err(|error| error.to_string())?;
        }
        // The pod has what its manifest says once its containers have it.
        let resources = self.memory.grants.pod.take().and_then(|given| given.resources);
        self.memory.grants.pod = Some(PodGrant { resources, ..PodGrant::of(self.pod, amounts) });
        self.save_grants().await;
        Ok(())
    }

    /// Records on disk what the pod was given.
    async fn save_grants(&self) {
        // A UID that cannot be a folder name was rejected with its manifest.
        let Ok(directory) = self.tools.settings.data.pod(spec::uid(self.pod).as_str()) else { return };
        let grants = self.memory.grants.clone();
        let pod = spec::pod_ref(self.pod);
        let note = move || grants.note(&directory.resources(), &pod);
        if let Err(error) = self.with_files("the resources allocated to the pod", note).await {
            tracing::warn!(pod = %spec::pod_ref(self.pod), %error, "the resources allocated to a pod are not \
                                                                    recorded yet");
        }
    }
}
