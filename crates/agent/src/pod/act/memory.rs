//! What an actor remembers about its pod between two plans. All of it may be lost without harm.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;
use pleg::{Now, Stamp};
use rubelet_model::{ContainerId, ContainerState, PodStatus};

use super::restarts::Restarts;
use super::start::Hold;
use crate::pod::backoff::{Backoffs, Growth};
use crate::pod::grants::Grants;
use crate::pod::replaced::Replaced;
use crate::status::Trouble;

/// How long to wait before a container that was told to end, and still runs, is told again.
const KILL_AGAIN: Duration = Duration::from_secs(2);

/// What an actor remembers about its pod.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(super) crashes: Backoffs,
    pub(super) pulls: Backoffs,
    pub(super) sandboxes: Backoffs,
    /// Why images could not be obtained the last time.
    pub(super) pull_errors: BTreeMap<String, String>,
    /// What keeps each container from running.
    pub(crate) troubles: BTreeMap<Arc<str>, Trouble>,
    /// Until when containers that could not be started are left alone.
    pub(super) holds: BTreeMap<Arc<str>, Hold>,
    /// When containers were last told to end.
    kills: HashMap<ContainerId, Stamp>,
    /// The containers whose `preStop` hook has run.
    pub(crate) hooks: HooksRun,
    /// When containers ended, by our clock.
    ended: HashMap<ContainerId, Stamp>,
    /// When the last status was read: no end that is new in the next one happened before.
    looked: Option<Stamp>,
    /// How long pulling images has taken so far.
    pub(crate) pulling: Duration,
    /// How often containers were started, as published.
    pub(crate) restarts: Restarts,
    /// The resources of the pod and its containers; on disk as well.
    pub(crate) grants: Grants,
    /// The instances that were ended to be started again; on disk as well.
    pub(crate) replaced: Replaced,
    /// Until when a resize that failed is not tried again.
    pub(super) resize_after: Option<Stamp>,
    /// Why the last resize failed.
    pub(crate) resize_error: Option<String>,
    /// Whether there was no network for the pod the last time.
    pub(super) lacks_network: bool,
    /// The pod as it was when all of its volumes were last ready.
    pub(super) furnished: Option<Arc<Pod>>,
}

impl Memory {
    pub(crate) fn new(growth: Growth) -> Self {
        Self {
            crashes: Backoffs::new(growth),
            pulls: Backoffs::new(growth),
            sandboxes: Backoffs::new(growth),
            pull_errors: BTreeMap::new(),
            troubles: BTreeMap::new(),
            holds: BTreeMap::new(),
            kills: HashMap::new(),
            hooks: HooksRun::default(),
            ended: HashMap::new(),
            looked: None,
            pulling: Duration::ZERO,
            restarts: Restarts::default(),
            grants: Grants::default(),
            replaced: Replaced::default(),
            resize_after: None,
            resize_error: None,
            lacks_network: false,
            furnished: None,
        }
    }

    /// Clears what failed before: the pod was changed, so it may work now.
    pub(crate) fn forgive(&mut self) {
        self.holds.clear();
        (self.resize_after, self.resize_error) = (None, None);
    }

    /// Notes which containers have ended since the last status.
    pub(crate) fn observe(&mut self, status: &PodStatus, now: Now) {
        let is_there = |id: &ContainerId| status.container(id).is_some();
        self.ended.retain(|id, _| is_there(id));
        self.kills.retain(|id, _| is_there(id));
        self.hooks.0.lock().retain(is_there);
        self.replaced.observe(status);
        for container in &status.containers {
            if container.state != ContainerState::Exited || self.ended.contains_key(&container.id) {
                continue;
            }
            // The runtime's clock is trusted for how long ago it was, within what we know ourselves.
            let ago = if container.finished_at.is_set() {
                Duration::from_nanos(u64::try_from(now.wall.0 - container.finished_at.0).unwrap_or(0))
            } else {
                Duration::ZERO
            };
            let by_runtime =
                now.stamp.as_nanos().saturating_sub(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX));
            let ended = Stamp::from_nanos(by_runtime).max(self.looked.unwrap_or(Stamp::ZERO));
            self.ended.insert(container.id.clone(), ended);
        }
        self.looked = Some(now.stamp);
    }

    /// Combines what acting has found out with what was noted from statuses in the meantime.
    pub(crate) fn with_noted(self, meanwhile: Self) -> Self {
        let Self { ended, looked, restarts, .. } = meanwhile;
        Self { ended, looked, restarts, ..self }
    }

    /// Notes that the volumes of the pod were taken down.
    pub(crate) fn lost_volumes(&mut self) {
        self.furnished = None;
    }

    /// Until when it is too soon to tell a container to end again; `None` if it is not, which counts as telling it now.
    pub(super) fn claim_kill(&mut self, id: &ContainerId, now: Stamp) -> Option<Stamp> {
        let until = self.kills.get(id).map(|told| told.plus(KILL_AGAIN)).filter(|until| now < *until);
        if until.is_none() {
            self.kills.insert(id.clone(), now);
        }
        until
    }

    /// Whether a container was told to end.
    pub(super) fn is_ending(&self, id: &ContainerId) -> bool {
        self.kills.contains_key(id)
    }

    /// When a container ended, as far as we know.
    pub(super) fn ended(&self, id: &ContainerId) -> Option<Stamp> {
        self.ended.get(id).copied()
    }
}

/// The containers whose `preStop` hooks have run to completion: they do not run again if the container is told again to
/// end. Clones share the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct HooksRun(Arc<Mutex<BTreeSet<ContainerId>>>);

impl HooksRun {
    pub(super) fn note(&self, id: &ContainerId) {
        self.0.lock().insert(id.clone());
    }

    pub(super) fn has_run(&self, id: &ContainerId) -> bool {
        self.0.lock().contains(id)
    }

    /// Whether the hook of any of these has run.
    pub(crate) fn any_has_run<'a>(&self, mut ids: impl Iterator<Item = &'a ContainerId>) -> bool {
        let run = self.0.lock();
        ids.any(|id| run.contains(id))
    }
}

/// What a back-off is about: another image, or other resources, deserve another try.
pub(super) fn fingerprint(container: &Container) -> String {
    let resources = serde_json::to_string(&container.resources).unwrap_or_default();
    format!("{}/{resources}", container.image.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rubelet_model::{SandboxState, UnixNanos};

    use super::*;
    use crate::pod::testkit::{self, Is};

    const SECOND: u64 = 1_000_000_000;

    fn now(seconds: u64, wall_seconds: i64) -> Now {
        Now { stamp: Stamp::from_nanos(seconds * SECOND), wall: UnixNanos(wall_seconds * 1_000_000_000) }
    }

    #[test]
    fn what_is_seen_and_told_while_somebody_acts_is_not_forgotten() {
        let told: k8s_openapi::api::core::v1::PodStatus = serde_json::from_value(serde_json::json!({
            "containerStatuses": [{
                "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 4,
                "containerID": "fake://a-4", "state": {"running": {}},
            }],
        }))
        .unwrap();
        let mut live = Memory::new(Growth::default());
        let mut acting = live.clone();
        let id = ContainerId::from("a-0");
        acting.claim_kill(&id, Stamp::from_nanos(0));
        live.observe(&testkit::status(SandboxState::Ready, &[("a", Is::Exited(1))]), now(7, 1_000_000));
        live.restarts.note(&told);
        let ended = live.ended(&id);
        let mut both = acting.with_noted(live);
        assert!(ended.is_some() && both.ended(&id) == ended);
        assert_eq!(both.restarts.next("a", None), 5);
        assert!(both.claim_kill(&id, Stamp::from_nanos(1)).is_some(), "and what it did is not either");
    }

    #[test]
    fn a_container_that_does_not_end_is_not_told_so_all_the_time() {
        let mut memory = Memory::new(Growth::default());
        let at = |seconds: u64| Stamp::from_nanos(seconds * SECOND);
        assert_eq!(memory.claim_kill(&"c".into(), at(10)), None);
        assert_eq!(memory.claim_kill(&"c".into(), at(11)), Some(at(12)));
        assert_eq!(memory.claim_kill(&"other".into(), at(11)), None);
        assert_eq!(memory.claim_kill(&"c".into(), at(12)), None);
    }

    #[test]
    fn another_image_or_other_resources_deserve_another_try_and_nothing_else_does() {
        let sized = |cpu| {
            let resources = Some(testkit::resources(cpu, "1Mi"));
            Container { resources, ..testkit::container("c") }
        };
        let known = fingerprint(&sized("1"));
        let of_image = Container { image: Some("image:2".to_owned()), ..sized("1") };
        let with_arguments = Container { args: Some(vec!["-v".to_owned()]), ..sized("1") };
        for (container, is_another) in [(of_image, true), (sized("2"), true), (with_arguments, false)] {
            assert_eq!(fingerprint(&container) != known, is_another, "{container:?}");
        }
    }

    #[test]
    fn the_runtimes_clock_is_believed_within_what_we_saw() {
        let mut memory = Memory::new(Growth::default());
        let mut status = testkit::status(SandboxState::Ready, &[("c", Is::Running)]);
        memory.observe(&status, now(100, 1_000));
        status.containers[0].state = ContainerState::Exited;
        // finish time by the runtime → our time of the end, observed at second 110
        let table = [(1_008, 108), (1_010, 110), (900, 100), (5_000, 110), (0, 110)];
        for (finished, wanted) in table {
            let mut memory = memory.clone();
            status.containers[0].finished_at = UnixNanos(finished * 1_000_000_000);
            memory.observe(&status, now(110, 1_010));
            let ended = memory.ended(&"c-0".into()).unwrap();
            assert_eq!(ended.as_nanos() / SECOND, wanted, "{finished}");
            memory.observe(&status, now(200, 90_000));
            assert_eq!(memory.ended(&"c-0".into()), Some(ended), "what is known stays");
        }
    }
}
