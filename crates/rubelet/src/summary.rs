//! A pod in one line, as in `kubectl get pods`.

mod hindrance;
mod mood;
mod word;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use rubelet_agent::board::PodView;
use rubelet_model::UnixNanos;

use hindrance::Hindrance;
pub(crate) use mood::Mood;
pub(crate) use word::counted;

use crate::local::PodInfo;

/// The word for a pod whose containers are running.
const RUNNING: &str = "Running";

/// A pod in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// `namespace/name`.
    pub(crate) name: String,
    /// The status in one word: kubectl's, and `Stopped` for a pod that was ended on request.
    pub(crate) status: String,
    pub(crate) ready: usize,
    pub(crate) containers: usize,
    pub(crate) restarts: i64,
    /// What is wrong, in one sentence.
    pub(crate) detail: Option<String>,
    pub(crate) mood: Mood,
}

impl Summary {
    /// Summarizes a pod as the board shows it.
    pub(crate) fn of_view(view: &PodView) -> Self {
        let summary = Self::of(&view.pod, &view.status, view.stage.as_str());
        summary.held_back_by(Hindrance::of_view(view))
    }

    /// Summarizes a pod as an agent reports it.
    pub(crate) fn of_info(info: &PodInfo) -> Self {
        let status = info.pod.status.clone().unwrap_or_default();
        Self::of(&info.pod, &status, &info.stage).held_back_by(Hindrance::of_info(info))
    }

    /// Adds what holds the whole pod back (a volume, a sandbox, a taken name) or a failing probe, since no container
    /// status shows these. For a pod that is ready or has ended, earlier events mean nothing.
    fn held_back_by(self, hindrance: Option<Hindrance>) -> Self {
        let Some(hindrance) = hindrance.filter(|_| self.mood == Mood::Busy) else { return self };
        let runs = self.status == RUNNING;
        if runs && !hindrance.is_of_probe() {
            return self;
        }
        let mood = if runs && !hindrance.lasts_long() { Mood::Busy } else { Mood::Bad };
        Self { detail: Some(hindrance.words()), mood, ..self }
    }

    /// Summarizes a pod, given its status and the stage of its life.
    pub(crate) fn of(pod: &Pod, status: &PodStatus, stage: &str) -> Self {
        let metadata = &pod.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let init = status.init_container_statuses.as_deref().unwrap_or_default();
        let regular = status.container_statuses.as_deref().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let sidecars = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default().iter();
        let sidecars: Vec<&str> = sidecars
            .filter(|container| container.restart_policy.as_deref() == Some("Always"))
            .map(|container| container.name.as_str())
            .collect();
        // Sidecars count as containers.
        let stay = init.iter().filter(|container| sidecars.contains(&container.name.as_str())).chain(regular);
        let phase = text(&status.phase);
        let is_over = matches!(phase.as_str(), "Succeeded" | "Failed");
        let trouble = init.iter().chain(regular).find_map(trouble);
        let (word, detail) = match stage {
            "terminating" if !is_over => ("Terminating".to_owned(), None),
            "terminated" if !is_over => ("Stopped".to_owned(), None),
            _ => (word::of(pod, status), trouble.filter(|_| !is_over).or_else(|| status.message.clone())),
        };
        let ready = stay.filter(|container| container.ready).count();
        let containers = spec.map_or(0, |spec| spec.containers.len()) + sidecars.len();
        let mood = match (phase.as_str(), Mood::of(&word)) {
            // The word may be that of a container that succeeded.
            ("Failed", _) => Mood::Bad,
            (_, Mood::Well) if word == RUNNING && ready < containers => Mood::Busy,
            (_, mood) => mood,
        };
        Self {
            name: format!("{}/{}", text(&metadata.namespace), text(&metadata.name)),
            mood,
            status: word,
            ready,
            containers,
            restarts: counted(pod, status).iter().map(|container| i64::from(container.restart_count)).sum(),
            detail: detail.or_else(|| last_end(regular)).or_else(|| last_failure(init)),
        }
    }
}

/// Says what keeps a container from running. In a crash loop that is how it ended; the kubelet's message says only how long
/// the wait is, and repeats the names of the container and the pod.
fn trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let message = waiting.message.as_ref()?;
    let wait = message.split(" restarting failed container").next().filter(|wait| wait.len() < message.len());
    match (wait, last(container)) {
        (Some(wait), Some(last)) => {
            let words =
                last.message.as_deref().and_then(|words| words.lines().find(|line| !line.trim().is_empty()));
            let words = words.map(|words| format!(": {}", words.trim())).unwrap_or_default();
            Some(format!("{}{words}; {wait}", end_of(container, &last)))
        }
        _ => Some(format!("{}: {message}", container.name)),
    }
}

/// Says how a container that was restarted had ended.
fn last_end(containers: &[ContainerStatus]) -> Option<String> {
    containers.iter().find_map(|container| Some(end_of(container, &last(container)?)))
}

/// Says how an init container ended that should have succeeded.
fn last_failure(init: &[ContainerStatus]) -> Option<String> {
    let failed = |container: &ContainerStatus| last(container).filter(|last| last.exit_code != 0);
    init.iter().find_map(|container| Some(end_of(container, &failed(container)?)))
}

fn last(container: &ContainerStatus) -> Option<ContainerStateTerminated> {
    let ended = |state: &Option<ContainerState>| state.as_ref()?.terminated.clone();
    ended(&container.state).or_else(|| ended(&container.last_state))
}

fn end_of(container: &ContainerStatus, last: &ContainerStateTerminated) -> String {
    let reason = last.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}: last exit {}{reason}", container.name, last.exit_code)
}

/// Returns the current time.
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(pleg::clock::wall_clock().0)).unwrap_or_default()
}

/// Formats the time between two moments as kubectl does: `12s`, `3m25s`, `45m`, `5h12m`, `2d3h`, `30d`.
pub(crate) fn span(since: jiff::Timestamp, now: jiff::Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    let seconds = (now.as_second() - since.as_second()).max(0);
    let two = |large: i64, unit: char, small: i64, sub: char| {
        let rest = seconds % large / small;
        let rest = if rest == 0 { String::new() } else { format!("{rest}{sub}") };
        format!("{}{unit}{rest}", seconds / large)
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        _ => format!("{}d", seconds / DAY),
    }
}

/// Formats a time of day in the local time zone.
pub(crate) fn short_time(at: UnixNanos) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(at.0)) {
        Ok(at) => at.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S%.3f").to_string(),
        Err(_) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_kubectl_has_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (205, "3m25s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (18_720, "5h12m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (183_600, "2d3h"),
            (2_592_000, "30d"),
            (-5, "0s"),
        ];
        let start = jiff::Timestamp::from_second(1_000_000_000).unwrap();
        for (seconds, wanted) in table {
            let now = jiff::Timestamp::from_second(1_000_000_000 + seconds).unwrap();
            assert_eq!(span(start, now), wanted, "{seconds}");
        }
    }

    #[test]
    fn sidecars_count_as_containers_and_other_init_containers_do_not() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
                "containers": [{"name": "main"}],
            },
            "status": {
                "phase": "Running",
                "initContainerStatuses": [status("prepare", true), status("proxy", true)],
                "containerStatuses": [status("main", false)],
            },
        }))
        .unwrap();
        let summary = Summary::of(&pod, pod.status.as_ref().unwrap(), "syncing");
        assert_eq!((summary.ready, summary.containers), (1, 2));
    }

    #[test]
    fn a_crash_loop_is_explained_by_how_it_ended() {
        let backoff = "back-off 20s restarting failed container=main pod=web_shop(1)";
        let table = [
            (
                "CrashLoopBackOff",
                backoff,
                Some("\n out of luck \nmore"),
                "main: last exit 3 (Error): out of luck; back-off 20s",
            ),
            ("CrashLoopBackOff", backoff, None, "main: last exit 3 (Error); back-off 20s"),
            ("ImagePullBackOff", "Back-off pulling image \"x\"", None, "main: Back-off pulling image \"x\""),
        ];
        for (reason, message, words, wanted) in table {
            let mut container = status("main", false);
            container["state"] = serde_json::json!({"waiting": {"reason": reason, "message": message}});
            let last = serde_json::json!({"exitCode": 3, "reason": "Error", "message": words});
            container["lastState"] = serde_json::json!({"terminated": last});
            let container = serde_json::from_value(container).unwrap();
            assert_eq!(trouble(&container).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn what_happened_last_tells_why_a_pod_does_not_arrive_and_nothing_of_one_that_has() {
        let summary = |reason: &str, last: &[(&str, &str, &str)]| {
            let state = match reason {
                "" => serde_json::json!({"running": {}}),
                reason => serde_json::json!({"waiting": {"reason": reason}}),
            };
            let mut container = status("main", false);
            container["state"] = state;
            let event = |(kind, reason, message): &(&str, &str, &str)| {
                serde_json::json!({
                    "type": kind, "reason": reason, "message": message, "metadata": {}, "involvedObject": {},
                })
            };
            let info: PodInfo = serde_json::from_value(serde_json::json!({
                "pod": {
                    "metadata": {"namespace": "shop", "name": "web"},
                    "spec": {"containers": [{"name": "main"}]},
                    "status": {"phase": if reason.is_empty() { "Running" } else { "Pending" },
                        "containerStatuses": [container]},
                },
                "stage": "syncing",
                "events": last.iter().map(event).collect::<Vec<_>>(),
            }))
            .unwrap();
            let summary = Summary::of_info(&info);
            (summary.mood, summary.detail)
        };
        let mount = ("Warning", "FailedMount", "no such folder");
        let creating = "ContainerCreating";
        assert_eq!(summary(creating, &[]), (Mood::Busy, None));
        let told = Some("FailedMount: no such folder".to_owned());
        assert_eq!(summary(creating, &[("Normal", "Pulled", "there"), mount]), (Mood::Bad, told));
        assert_eq!(
            summary(creating, &[mount, ("Normal", "Pulling", "it comes")]),
            (Mood::Busy, None),
            "overcome"
        );
        assert_eq!(summary("", &[mount]), (Mood::Busy, None), "it runs, and that was before");
        assert_eq!(
            summary("CrashLoopBackOff", &[mount]),
            (Mood::Bad, None),
            "its container says what is wrong"
        );
    }

    #[test]
    fn who_runs_and_is_not_ready_is_on_the_way_and_after_a_while_in_trouble() {
        let summary = |ready: bool, reason: &str, last: &str| {
            let mut container = status("main", ready);
            container["state"] = serde_json::json!({"running": {}});
            let info: PodInfo = serde_json::from_value(serde_json::json!({
                "pod": {
                    "spec": {"containers": [{"name": "main"}]},
                    "status": {"phase": "Running", "containerStatuses": [container]},
                },
                "stage": "syncing",
                "events": [{
                    "type": "Warning", "reason": reason, "message": "no answer", "metadata": {}, "involvedObject": {},
                    "firstTimestamp": "2026-08-01T12:00:00Z", "lastTimestamp": last,
                }],
            }))
            .unwrap();
            let Summary { status, mood, detail, .. } = Summary::of_info(&info);
            assert_eq!(status, "Running");
            (mood, detail)
        };
        let why = Some("Unhealthy: no answer".to_owned());
        assert_eq!(summary(false, "Unhealthy", "2026-08-01T12:00:20Z"), (Mood::Busy, why.clone()));
        assert_eq!(summary(false, "Unhealthy", "2026-08-01T12:00:40Z"), (Mood::Bad, why));
        assert_eq!(summary(false, "FailedMount", "2026-08-01T12:00:40Z"), (Mood::Busy, None), "overcome");
        assert_eq!(summary(true, "Unhealthy", "2026-08-01T12:00:40Z"), (Mood::Well, None), "overcome, too");
    }

    #[test]
    fn a_pod_that_has_failed_is_not_well_whatever_its_containers_say() {
        let summary = |phase: &str| {
            let mut container = status("main", false);
            container["state"] = serde_json::json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
            let pod: Pod = serde_json::from_value(serde_json::json!({
                "spec": {"containers": [{"name": "main"}]},
                "status": {"phase": phase, "reason": "DeadlineExceeded", "message": "too long",
                    "containerStatuses": [container]},
            }))
            .unwrap();
            let Summary { status, mood, detail, .. } =
                Summary::of(&pod, pod.status.as_ref().unwrap(), "terminated");
            (status, mood, detail)
        };
        let told = |mood| ("Completed".to_owned(), mood, Some("too long".to_owned()));
        assert_eq!(summary("Failed"), told(Mood::Bad));
        assert_eq!(summary("Succeeded"), told(Mood::Well));
    }

    fn status(name: &str, ready: bool) -> serde_json::Value {
        serde_json::json!({"name": name, "ready": ready, "restartCount": 0, "image": "i", "imageID": "i"})
    }
}
