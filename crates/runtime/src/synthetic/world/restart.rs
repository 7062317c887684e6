//! The effects of a runtime restart on what it reports about the world.

use rubelet_model::{ContainerId, ContainerState, SandboxId, SandboxState};

use super::{Container, World};

/// How the runtime comes back. By default, everything is as it was.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "it takes effect when a runtime comes up with it"]
pub struct Restart {
    pub(crate) initializing: u64,
    short_lists: u32,
    missing: f64,
    lose_ips: bool,
    not_ready: f64,
    unknown: f64,
    unloaded: f64,
}

impl Restart {
    /// Everything is as it was.
    pub fn clean() -> Self {
        Self::default()
    }

    /// Answers the first `calls` calls with the error of a runtime that is still starting.
    pub fn initializing(mut self, calls: u64) -> Self {
        self.initializing = calls;
        self
    }

    /// Makes the first `lists` lists of each kind empty.
    pub fn empty_lists(self, lists: u32) -> Self {
        self.partial_lists(lists, 1.0)
    }

    /// Makes this share of the entries missing from the first `lists` lists of each kind, the same ones in each.
    pub fn partial_lists(mut self, lists: u32, missing: f64) -> Self {
        self.short_lists = lists;
        self.missing = missing;
        self
    }

    /// Makes all sandboxes lose their addresses.
    pub fn lose_ips(mut self) -> Self {
        self.lose_ips = true;
        self
    }

    /// Makes this share of the sandboxes not ready. Their containers keep running.
    pub fn sandboxes_not_ready(mut self, share: f64) -> Self {
        self.not_ready = share;
        self
    }

    /// Puts this share of the running containers in an unknown state.
    pub fn containers_unknown(mut self, share: f64) -> Self {
        self.unknown = share;
        self
    }

    /// Makes this share of the containers fail to load: they are in no list and have no status until the next restart,
    /// though they may be running.
    pub fn containers_unloaded(mut self, share: f64) -> Self {
        self.unloaded = share;
        self
    }
}

/// What lists leave out after a restart.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// The number of restarts so far: each hides others.
    restarts: u64,
    missing: f64,
    sandbox_lists: u32,
    container_lists: u32,
    /// Containers that could not be loaded.
    unloaded: Vec<Container>,
}

impl World {
    /// Sets whether the runtime is down. While it is, there are no events: what happens is only discovered later.
    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    /// Applies the effects of this kind of restart to the world.
    pub(crate) fn restart(&mut self, how: &Restart) {
        let nth = self.hidden.restarts + 1;
        let unloaded = std::mem::take(&mut self.hidden.unloaded);
        // Those whose sandbox was removed in the meantime went with it.
        for container in unloaded.into_iter().filter(|lost| self.sandboxes.contains_key(&lost.sandbox)) {
            self.container_labels.insert(&container.config.labels, container.id.clone());
            self.containers.insert(container.id.clone(), container);
        }
        self.hidden = Hidden {
            restarts: nth,
            missing: how.missing,
            sandbox_lists: how.short_lists,
            container_lists: how.short_lists,
            unloaded: Vec::new(),
        };
        for id in self.sandboxes.keys().cloned().collect::<Vec<_>>() {
            let sandbox = &self.sandboxes[&id];
            let lost = sandbox.state == SandboxState::Ready
                && self.seed.happens(how.not_ready, "restart not ready", id.as_str(), nth);
            let loses_ips = how.lose_ips && !sandbox.ips.is_empty();
            if lost {
                self.force_sandbox_state(&id, SandboxState::NotReady);
            }
            if loses_ips {
                self.set_ips(&id, &[]);
            }
        }
        for id in self.containers.keys().cloned().collect::<Vec<_>>() {
            let lost = self.containers[&id].state == ContainerState::Running
                && self.seed.happens(how.unknown, "restart unknown", id.as_str(), nth);
            if lost {
                self.set_unknown(&id);
            }
            if self.seed.happens(how.unloaded, "restart unloaded", id.as_str(), nth) {
                // Its sandbox still refers to it; nothing else finds it.
                let container = self.containers.remove(&id).expect("its key was just there");
                self.container_labels.remove(&container.config.labels, &id);
                self.hidden.unloaded.push(container);
            }
        }
    }

    /// Returns which sandboxes the next list leaves out, if any, and counts that list.
    pub(super) fn sandboxes_left_out(&mut self) -> Option<impl Fn(&SandboxId) -> bool + use<>> {
        let short = take_one(&mut self.hidden.sandbox_lists);
        let (seed, missing, nth) = (self.seed, self.hidden.missing, self.hidden.restarts);
        short.then_some(move |id: &SandboxId| seed.happens(missing, "left out", id.as_str(), nth))
    }

    /// Does the same for containers.
    pub(super) fn containers_left_out(&mut self) -> Option<impl Fn(&ContainerId) -> bool + use<>> {
        let short = take_one(&mut self.hidden.container_lists);
        let (seed, missing, nth) = (self.seed, self.hidden.missing, self.hidden.restarts);
        short.then_some(move |id: &ContainerId| seed.happens(missing, "left out", id.as_str(), nth))
    }
}

fn take_one(left: &mut u32) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}
