//! The phase of a pod: one word for all its containers.

use k8s_openapi::api::core::v1::{
    Container, ContainerStateTerminated, ContainerStatus as ApiContainer, Pod, PodStatus as ApiStatus,
};

use super::containers::find;
use super::{Inputs, restarting};
use crate::manifest::annotation::is_static;
use crate::pod::{containers, init_containers, init_exit_code, is_sidecar, restarts_after};

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed]
            .into_iter()
            .find(|phase| phase.as_str() == word)
    }

    /// Returns the phase in a status.
    pub(crate) fn of(status: &ApiStatus) -> Option<Self> {
        Self::read(status.phase.as_deref()?)
    }

    /// Whether it will never change again.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => true,
            Self::Pending | Self::Running => false,
        }
    }
}

/// Returns how a container ended that has ended, or that waits after it has ended.
fn end(status: &ApiContainer) -> Option<&ContainerStateTerminated> {
    let state = status.state.as_ref()?;
    state.terminated.as_ref().or_else(|| {
        state.waiting.as_ref()?;
        status.last_state.as_ref()?.terminated.as_ref()
    })
}

/// Whether a container that ended this way, with this code, never comes back, not even together with all others.
fn is_for_good(pod: &Pod, container: &Container, end: &ContainerStateTerminated, code: i32) -> bool {
    end.reason.as_deref() != Some(restarting::REASON) && !restarts_after(pod, container, code)
}

/// Returns the exit code of an init container as its policy interprets it.
pub(super) fn init_code(end: &ContainerStateTerminated) -> i32 {
    init_exit_code(end.exit_code, end.reason.as_deref().unwrap_or_default())
}

/// Whether the newest instance of a container was ended in order to be replaced by another.
fn is_replaced(Inputs { runtime, replaced, .. }: Inputs<'_>, container: &Container) -> bool {
    runtime.newest(&container.name).is_some_and(|newest| replaced.has_ended(newest))
}

fn is_running(status: &ApiContainer) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

#[derive(Default)]
struct Count {
    failed_for_good: usize,
    pending_init: usize,
    pending_sidecars: usize,
    waiting: usize,
    running: usize,
    unknown: usize,
    stopped: usize,
    succeeded: usize,
    stopped_for_good: usize,
}

impl Count {
    fn init(&mut self, pod: &Pod, container: &Container, status: Option<&ApiContainer>) {
        match status.and_then(end).map(|end| (end, init_code(end))) {
            Some((end, code)) if code != 0 && is_for_good(pod, container, end, code) => {
                self.failed_for_good += 1;
            }
            Some(_) => {}
            None => self.pending_init += 1,
        }
    }

    fn sidecar(&mut self, status: Option<&ApiContainer>) {
        let Some(status) = status else {
            self.unknown += 1;
            return;
        };
        if is_running(status) {
            self.running += 1;
            self.pending_sidecars += usize::from(status.started != Some(true));
        } else if end(status).is_none() {
            self.pending_sidecars += 1;
            self.waiting += 1;
        }
    }

    fn regular(&mut self, inputs: Inputs<'_>, container: &Container, status: Option<&ApiContainer>) {
        let Some(status) = status else {
            self.unknown += 1;
            return;
        };
        let has_ended = status.state.as_ref().is_some_and(|state| state.terminated.is_some());
        match end(status) {
            Some(end) => {
                self.stopped += 1;
                self.succeeded += usize::from(has_ended && end.exit_code == 0);
                let comes_back = !inputs.is_over && is_replaced(inputs, container);
                let is_for_good = is_for_good(inputs.pod, container, end, end.exit_code);
                self.stopped_for_good += usize::from(!comes_back && is_for_good);
            }
            None if is_running(status) => self.running += 1,
            None => self.waiting += 1,
        }
    }
}

/// Computes the phase of a pod.
pub(super) fn of(inputs: Inputs<'_>, init: &[ApiContainer], regular: &[ApiContainer]) -> Phase {
    let Inputs { pod, runtime, is_over, .. } = inputs;
    let mut count = Count::default();
    for container in init_containers(pod) {
        let status = find(init, &container.name);
        if is_sidecar(container) {
            count.sidecar(status);
        } else {
            count.init(pod, container, status);
        }
    }
    for container in containers(pod) {
        count.regular(inputs, container, find(regular, &container.name));
    }
    let has_active = runtime
        .active_containers()
        .any(|active| containers(pod).iter().any(|container| *container.name == *active.name));
    let Count { running, unknown, stopped, succeeded, stopped_for_good, .. } = count;
    let by_result = if stopped == succeeded { Phase::Succeeded } else { Phase::Failed };
    if count.failed_for_good > 0 {
        Phase::Failed
    } else if count.pending_init > 0 || (count.pending_sidecars > 0 && !has_active) || count.waiting > 0 {
        Phase::Pending
    } else if running > 0 && unknown == 0 {
        Phase::Running
    } else if running == 0 && stopped > 0 && unknown == 0 {
        // A static pod that is being stopped has not finished: it runs again when it is wanted again.
        let is_finished = is_over && !is_static(pod);
        if stopped != stopped_for_good && !is_finished { Phase::Running } else { by_result }
    } else {
        Phase::Pending
    }
}
