//! What an actor publishes about its pod, by way of the board.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus as ApiStatus};
use rubelet_model::{PodStatus, PodUid};

use super::{Actor, ends};
use crate::board::{self, Draft, Stage};
use crate::manifest::annotation;
use crate::off_thread::off_thread;
use crate::pod::Replaced;
use crate::pod::act::Milestone;
use crate::pod::grants::Grants;
use crate::pod::lifecycle::Lifecycle;
use crate::pod::resize::resize_message;
use crate::pod::spec;
use crate::pod::unapplied::unapplied;
use crate::probe::Record as ProbeRecord;
use crate::runtime::{ImageStore, Runtime};
use crate::status::{self, Phase, Rejection, ResizePending};
use crate::volumes::PodDirectory;

/// Why a pod has failed though its containers do not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It has run for as long as it may.
    DeadlineExceeded,
    /// It may not be given what it would need to continue.
    SandboxLost,
}

/// What an earlier agent wrote to disk about a pod.
struct WrittenDown {
    has_folder: bool,
    said: Option<ApiStatus>,
    grants: Grants,
    replaced: Replaced,
    probed: ProbeRecord,
}

impl WrittenDown {
    fn read(folder: &PodDirectory, uid: &PodUid) -> Self {
        Self {
            has_folder: folder.path().try_exists().unwrap_or(true),
            said: board::recall(folder, uid),
            grants: Grants::read(&folder.resources()),
            replaced: Replaced::read(&folder.replaced()),
            probed: ProbeRecord::read(&folder.probes()),
        }
    }
}

impl<R: Runtime + ImageStore> Actor<R> {
    /// Reads what was last published about the pod: by an actor that panicked, or by an earlier agent.
    ///
    /// A rejection from then says nothing about now: if the pod is still refused, it is rejected again.
    pub(super) async fn recall(&mut self) {
        self.said = self.board.get(&self.uid).map(|view| view.status.clone());
        // A UID that cannot be a folder name was rejected with its manifest.
        if let Ok(folder) = self.tools.settings.data.pod(self.uid.as_str()) {
            let (uid, probes) = (self.uid.clone(), folder.probes());
            let read = move || WrittenDown::read(&folder, &uid);
            let WrittenDown { has_folder, said, grants, replaced, probed } = off_thread(read).await;
            self.had_folder = has_folder;
            let said = said.filter(|said| !Rejection::is_told_by(said)).map(status::recalled);
            self.said = self.said.take().or(said);
            self.memory.grants = grants;
            self.memory.replaced = replaced;
            self.probes.go_on_from(probed, probes);
        }
        let Some(said) = &self.said else { return };
        self.memory.restarts.recall(said);
        if let Some(started) = &said.start_time {
            self.tenure.began(started.0, self.tools.clock.now());
        }
    }

    /// Publishes the state of the pod.
    pub(super) fn publish(&mut self, runtime: &PodStatus) -> Phase {
        self.publish_as(runtime, false)
    }

    /// Publishes how the pod has ended: nothing of it runs any more.
    pub(super) fn publish_last(&mut self, runtime: &PodStatus) {
        self.publish_as(runtime, true);
    }

    fn publish_as(&mut self, runtime: &PodStatus, is_over: bool) -> Phase {
        let settings = &self.tools.settings;
        let status = match &self.said {
            // Nothing of it was ever made, so there is nothing to add.
            Some(said) if self.is_rejected && runtime.containers.is_empty() => said.clone(),
            said => status::generate(status::Inputs {
                pod: self.lifecycle.pod(),
                runtime,
                before: said.as_ref(),
                troubles: &self.memory.troubles,
                grants: &self.memory.grants,
                replaced: &self.memory.replaced,
                verdicts: &self.verdicts,
                last_words: self.last_words.all(),
                is_over,
                lacks_sandbox: self.lacks_sandbox,
                runtime_name: &settings.runtime_name,
                host_ips: &settings.host_ips.now(),
                features: settings.admission.runtime,
                resize_pending: self.resize_pending.as_ref(),
                resize_error: self.memory.resize_error.as_deref(),
            }),
        };
        self.tell(status, is_over)
    }

    /// Publishes the last status again, with the events since then.
    pub(super) fn publish_again(&mut self) {
        match self.said.clone() {
            Some(said) => self.tell(said, false),
            None => self.publish(&PodStatus::unknown_to_runtime(self.uid.clone())),
        };
    }

    fn tell(&mut self, status: ApiStatus, is_over: bool) -> Phase {
        let stage = match &self.lifecycle {
            Lifecycle::Pending { .. } => Stage::Pending,
            Lifecycle::Syncing { .. } => Stage::Syncing,
            Lifecycle::Terminating { .. } if is_over => Stage::Terminated,
            Lifecycle::Terminating { .. } => Stage::Terminating,
            Lifecycle::Terminated { .. } => Stage::Terminated,
        };
        self.tell_of_resize(&status);
        let draft = Draft {
            pod: self.lifecycle.pod().clone(),
            source: self.source.clone(),
            before: self.said.as_ref(),
            status,
            stage,
            events: self.journal.told(),
        };
        let view = self.board.publish(draft, &self.tools.clock);
        let phase = Phase::of(&view.status).unwrap_or(Phase::Pending);
        self.count(&view.status, phase);
        self.memory.restarts.note(&view.status);
        self.said = Some(view.status.clone());
        phase
    }

    /// Counts what is new in a status.
    fn count(&self, status: &ApiStatus, phase: Phase) {
        let metrics = &self.tools.metrics;
        for (kind, end) in status::new_ends(self.said.as_ref(), status) {
            metrics.container_ended(kind, end.exit_code, end.reason.as_deref().unwrap_or_default());
        }
        let before = self.said.as_ref().and_then(Phase::of);
        if phase == Phase::Running && before.is_none_or(|before| before == Phase::Pending) {
            let after = seen_ago(self.lifecycle.pod()).unwrap_or_default();
            metrics.pod_runs(after, self.memory.pulling);
        }
    }

    /// Notes why the pod does not get the resources of its manifest, and reports it if it is news.
    pub(super) fn tell_of_pending_resize(&mut self, pending: Option<(Arc<Pod>, ResizePending)>) {
        if let Some((wanted, why)) = &pending
            && self.resize_pending.as_ref() != Some(why)
        {
            let reason = match why {
                ResizePending::Deferred(_) => "ResizeDeferred",
                ResizePending::Infeasible(_) => "ResizeInfeasible",
            };
            self.journal.warning(None, reason, resize_message(wanted, why.reason(), Some(why.message())));
        }
        self.resize_pending = pending.map(|(_, why)| why);
    }

    /// Reports which changes of a manifest do not reach what runs.
    pub(super) fn tell_of_unapplied(&self, wanted: &Pod) {
        let pod = self.lifecycle.pod();
        let message = match &self.lifecycle {
            Lifecycle::Syncing { .. } if !self.lacks_sandbox => {
                let fields = unapplied(pod, wanted);
                if fields.is_empty() {
                    return;
                }
                let fields = fields.join(", ");
                format!(
                    "these fields are only read when a container starts, so the running containers keep the old \
                     values: {fields}. Remove metadata.uid from the manifest to have the pod replaced on every change"
                )
            }
            Lifecycle::Terminated { ending, .. } if !ending.forget && pod.spec != wanted.spec => {
                "the manifest changed, but the pod has finished and will not run again. Change or remove \
                 metadata.uid to run the new version"
                    .to_owned()
            }
            _ => return,
        };
        self.journal.warning(None, "ChangeNotApplied", message);
    }

    /// Reports that the pod is being resized, or has been, if the status about to be published is the first to show it.
    fn tell_of_resize(&mut self, status: &ApiStatus) {
        let was_resizing = self.said.as_ref().is_some_and(status::is_resizing);
        if !matches!(self.lifecycle, Lifecycle::Syncing { .. }) {
            return;
        }
        if status::is_resizing(status) {
            let started = resize_message(self.lifecycle.pod(), "started", None);
            let is_other = self.resizing.as_ref().is_some_and(|told| *told != started);
            if !was_resizing || is_other {
                self.journal.normal(None, "ResizeStarted", started.clone());
            }
            self.resizing = Some(started);
        } else if was_resizing && Phase::of(status).is_some_and(|phase| !phase.is_terminal()) {
            self.resizing = None;
            let completed = resize_message(self.lifecycle.pod(), "completed", None);
            self.journal.normal(None, "ResizeCompleted", completed);
        }
    }

    /// Makes the probes follow what runs, and reads their verdicts.
    pub(super) fn tend_probes(&mut self, status: &Arc<PodStatus>) {
        let pod = self.lifecycle.pod().clone();
        let is_ending = match self.lifecycle {
            Lifecycle::Pending { .. } | Lifecycle::Syncing { .. } => false,
            Lifecycle::Terminating { .. } | Lifecycle::Terminated { .. } => true,
        };
        let ips = spec::reachable_ips(&pod, &status.ips, &self.tools.settings.host_ips.now());
        self.probes.tend(&pod, status, &ips, is_ending);
        self.verdicts = self.probes.verdicts();
        self.probes.save();
        self.shown = Some(status.clone());
    }

    /// Publishes new verdicts of the probes while something else is in progress.
    pub(super) fn publish_verdicts(&mut self) {
        let Some(shown) = self.shown.clone() else { return };
        self.verdicts = self.probes.verdicts();
        self.publish(&shown);
        self.probes.save();
    }

    /// Publishes the progress of acting while it is still in progress.
    pub(super) async fn tell_of(&mut self, milestone: Milestone) {
        let Some(planned) = self.shown.clone() else { return };
        match milestone {
            Milestone::Sandbox => {
                self.lacks_sandbox = false;
                self.publish(&planned);
            }
            Milestone::Ended(told) => {
                self.note_action();
                // The dropped sender is the answer: acting stops there, and is tried again later.
                let Ok(ended) = self.fresh_status().await else { return };
                let shown = Arc::new(ends::of_init_containers(self.lifecycle.pod(), &planned, &ended));
                self.shown = Some(shown.clone());
                self.publish(&shown);
                let _ = told.send(());
            }
        }
    }

    /// Records that the pod has failed as a whole.
    pub(super) fn say_failed(&mut self, failure: Failure) {
        let (reason, message) = match failure {
            Failure::DeadlineExceeded => {
                ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            }
            Failure::SandboxLost => (
                "SandboxLost",
                "The sandbox of the pod was lost before all of its containers had started, and its restartPolicy \
                 does not allow another",
            ),
        };
        match failure {
            Failure::DeadlineExceeded => self.journal.normal(None, reason, message),
            Failure::SandboxLost => self.journal.warning(None, reason, message),
        }
        let said = self.said.get_or_insert_default();
        said.phase = Some(Phase::Failed.as_str().to_owned());
        said.reason = Some(reason.to_owned());
        said.message = Some(message.to_owned());
    }

    /// Rejects the pod: it has failed, and whatever of it still runs from before is ended. A pod that has finished,
    /// successfully or not, stays finished; one that is already rejected gets the current reason.
    pub(super) fn reject(&mut self, rejection: &Rejection) {
        let has_finished = self.said.as_ref().and_then(Phase::of).is_some_and(Phase::is_terminal);
        let is_ending =
            matches!(self.lifecycle, Lifecycle::Terminating { .. } | Lifecycle::Terminated { .. });
        if !self.is_rejected && (is_ending || has_finished) {
            return;
        }
        let Rejection { reason, message } = rejection;
        tracing::info!(pod = %spec::pod_ref(self.lifecycle.pod()), %reason, message, "a pod is rejected");
        self.journal.warning(None, reason.clone(), message.clone());
        if !self.is_rejected {
            self.tools.metrics.pod_rejected(reason);
        }
        let status = rejection.status(self.lifecycle.pod());
        let start_time = self.said.take().and_then(|said| said.start_time);
        self.said = Some(ApiStatus { start_time, ..status });
        self.is_rejected = true;
        self.transition(Lifecycle::finished);
    }
}

/// Returns how long ago the pod was first seen.
pub(super) fn seen_ago(pod: &Pod) -> Option<Duration> {
    let seen: jiff::Timestamp = annotation::value(pod, annotation::SEEN)?.parse().ok()?;
    let nanos = i128::from(pleg::clock::wall_clock().0) - seen.as_nanosecond();
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}
