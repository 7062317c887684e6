//! The probes of one pod: its actor starts and ends them as containers come and go, and is notified of every new
//! verdict.
//!
//! Verdicts are one value in a `watch`: the newest wins, and nothing waits for anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use pleg::{Clock, Now, Stamp};
use rubelet_model::{ContainerId, ContainerState, ContainerStatus, PodRef, PodStatus};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::ask::{Asker, Question};
use super::course::{Course, Kind, Thresholds, Verdict};
use super::gate::PodPlaces;
use super::metrics::ProbeMetrics;
use super::pace::{Pace, age};
use super::record::{self, Record};
use super::verdicts::Verdicts;
use super::worker::Worker;
use crate::disk::Disk;
use crate::pod::{Journal, containers, init_containers, is_sidecar};
use crate::runtime::Runtime;

/// What probing needs; shared by all pods.
#[derive(Debug)]
pub(crate) struct Prober<R> {
    pub(crate) asker: Asker<R>,
    pub(crate) clock: Clock,
    pub(crate) metrics: ProbeMetrics,
}

/// A running probe.
struct Running {
    probe: Arc<Probe>,
    /// Whether it started only after the startup probe had succeeded, or still waits for that.
    follows_startup: bool,
    ips: Arc<[IpAddr]>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The probes of one pod. Dropping this ends them.
pub(crate) struct PodProbes<R> {
    prober: Arc<Prober<R>>,
    journal: Journal,
    pod: PodRef,
    /// The places of this pod's commands.
    places: PodPlaces,
    running: BTreeMap<(ContainerId, Kind), Running>,
    verdicts: watch::Sender<Verdicts>,
    changes: watch::Receiver<Verdicts>,
    /// When the last status was read.
    looked: Option<Stamp>,
    /// The instances that have been seen running, each with the time at which the previous status was read: none has
    /// been running for longer than that.
    seen: BTreeMap<ContainerId, Option<Stamp>>,
    /// What is on disk, or is being written there.
    record: Record,
    path: Option<PathBuf>,
    disk: Disk,
    /// The task that writes the record, since there was something to write for the first time.
    scribe: Option<watch::Sender<Record>>,
    /// The probes whose metrics must be removed at the end.
    counted: BTreeSet<(Kind, Arc<str>)>,
}

impl<R: Runtime> PodProbes<R> {
    /// Creates the probes of a pod about which nothing is known yet.
    pub(crate) fn new(prober: Arc<Prober<R>>, journal: Journal, pod: PodRef, disk: Disk) -> Self {
        let (verdicts, changes) = watch::channel(Verdicts::default());
        Self {
            places: prober.asker.gate.for_a_pod(),
            prober,
            journal,
            pod,
            running: BTreeMap::new(),
            verdicts,
            changes,
            looked: None,
            seen: BTreeMap::new(),
            record: Record::default(),
            path: None,
            disk,
            scribe: None,
            counted: BTreeSet::new(),
        }
    }

    /// Continues from what an earlier agent had found out, and writes to `path` what this one finds out.
    pub(crate) fn go_on_from(&mut self, record: Record, path: PathBuf) {
        self.record = record;
        self.path = Some(path);
    }

    /// Returns the current verdicts.
    pub(crate) fn verdicts(&mut self) -> Verdicts {
        self.changes.borrow_and_update().clone()
    }

    /// Waits until there is a verdict that has not been seen yet. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // This struct holds a sender, so the channel cannot be closed.
        let _ = self.changes.changed().await;
    }

    /// Starts the probes of what is running now, and ends all others. In a pod that is ending, containers are no longer
    /// asked whether they have started or are alive: both are assumed.
    pub(crate) fn tend(&mut self, pod: &Pod, status: &PodStatus, ips: &[IpAddr], is_ending: bool) {
        let now = self.prober.clock.now();
        self.note_instances(status);
        let probed: Vec<Probed<'_>> = probed(pod, status).collect();
        let is_probed = |id: &ContainerId, kind: Kind| {
            probed.iter().any(|one| one.instance.id == *id && one.kind == kind)
        };
        self.running
            .retain(|(id, kind), _| is_probed(id, *kind) && (!is_ending || kind.outlives_order_to_end()));
        self.verdicts.send_if_modified(|verdicts| verdicts.keep(is_probed));
        let ips: Arc<[IpAddr]> = ips.into();
        for one in &probed {
            if is_ending && !one.kind.outlives_order_to_end() {
                let (id, kind) = (&one.instance.id, one.kind);
                self.verdicts.send_if_modified(|all| all.set(id, kind, Some(Verdict::Success)));
            } else if !self.goes_on(one, &ips) {
                self.begin(one, &ips, now);
            }
        }
        self.looked = Some(now.stamp);
    }

    /// An instance whose state is unknown for a while is still the same one.
    fn note_instances(&mut self, status: &PodStatus) {
        self.seen.retain(|id, _| status.containers.iter().any(|instance| instance.id == *id));
        for instance in &status.containers {
            if instance.state == ContainerState::Running && !self.seen.contains_key(&instance.id) {
                self.seen.insert(instance.id.clone(), self.looked);
            }
        }
    }

    /// Whether a probe is running as it should, or has completed.
    fn goes_on(&self, one: &Probed<'_>, ips: &Arc<[IpAddr]>) -> bool {
        let Some(running) = self.running.get(&(one.instance.id.clone(), one.kind)) else { return false };
        let verdict = self.verdicts.borrow().of(&one.instance.id).by(one.kind);
        let was_lost = running.task.is_finished() && !one.kind.is_final(verdict);
        if was_lost {
            tracing::error!(pod = %self.pod, container = %one.instance.id, "a probe task panicked and is restarted");
        }
        *running.probe == *one.probe
            && running.follows_startup == one.follows_startup()
            && running.ips == *ips
            && !was_lost
    }

    fn begin(&mut self, one: &Probed<'_>, ips: &Arc<[IpAddr]>, now: Now) {
        let Probed { kind, container, instance, probe } = *one;
        let id = &instance.id;
        let was_found = self.looked.is_none();
        // A probe whose definition has changed continues from its own verdict; one found at start, from the record.
        let known = self.verdicts.borrow().of(id).by(kind).or_else(|| self.record.get(id).by(kind));
        let course = Course::begin(kind, Thresholds::of(probe), known);
        let verdict = course.verdict();
        self.verdicts.send_if_modified(|verdicts| verdicts.set(id, kind, verdict));
        let pace = Pace::of(probe);
        let unseen_until = self.seen.get(id).copied().flatten();
        let age = age(instance.started_at, unseen_until, now);
        let uptime = Stamp::ZERO.until(now.stamp);
        let delay = pace.delay_left(kind, age).max(pace.spread(uptime, was_found, fastrand::f64()));
        let probe = Arc::new(probe.clone());
        let question = Question {
            id: id.clone(),
            container: Arc::new(container.clone()),
            probe: probe.clone(),
            ips: ips.clone(),
            timeout: pace.timeout,
        };
        let worker = Worker {
            prober: self.prober.clone(),
            journal: self.journal.clone(),
            pod: self.pod.clone(),
            places: self.places.clone(),
            kind,
            question,
            pace,
            course,
            verdicts: self.verdicts.clone(),
            delay,
            lenient_until: now.stamp.plus(pace.indulgence_left(age)),
            follows_startup: one.follows_startup(),
        };
        self.counted.insert((kind, container.name.as_str().into()));
        let running = Running {
            probe,
            follows_startup: one.follows_startup(),
            ips: ips.clone(),
            task: tokio::spawn(worker.run()),
        };
        self.running.insert((id.clone(), kind), running);
    }

    /// Ends all of them: nothing of the pod is running any more.
    pub(crate) fn end(&mut self) {
        self.running.clear();
        self.verdicts.send_if_modified(|verdicts| verdicts.keep(|_, _| false));
    }

    /// Writes the verdicts to disk if they have changed since the last write. Nothing waits for this, because the disk
    /// may hang.
    pub(crate) fn save(&mut self) {
        let Some(path) = &self.path else { return };
        let record = Record::of(&self.verdicts.borrow());
        if record == self.record {
            return;
        }
        self.record = record.clone();
        match &self.scribe {
            Some(scribe) => {
                scribe.send_replace(record);
            }
            None => self.scribe = Some(record::keep(record, path.clone(), self.disk.clone(), &self.pod)),
        }
    }
}

impl<R> Drop for PodProbes<R> {
    fn drop(&mut self) {
        for (kind, container) in &self.counted {
            self.prober.metrics.forget(*kind, &self.pod, container);
        }
    }
}

/// A probe of a running container.
#[derive(Clone, Copy)]
struct Probed<'a> {
    kind: Kind,
    container: &'a Container,
    instance: &'a ContainerStatus,
    probe: &'a Probe,
}

impl Probed<'_> {
    fn follows_startup(&self) -> bool {
        self.kind.waits_for_start() && self.container.startup_probe.is_some()
    }
}

/// Returns the probes of all running containers and sidecars of a pod.
fn probed<'a>(pod: &'a Pod, status: &'a PodStatus) -> impl Iterator<Item = Probed<'a>> {
    let sidecars = init_containers(pod).iter().filter(|container| is_sidecar(container));
    sidecars.chain(containers(pod)).flat_map(|container| {
        let instance = status.newest(&container.name);
        let instance = instance.filter(|instance| instance.state == ContainerState::Running);
        Kind::ALL.into_iter().filter_map(move |kind| {
            Some(Probed { kind, container, instance: instance?, probe: kind.of(container)? })
        })
    })
}

#[cfg(test)]
mod tests;
