//! Tests how pods are shown, with tables.

mod rows;

use k8s_openapi::api::core::v1::{ContainerStatus as ApiContainer, PodStatus as ApiStatus, Probe};
use rubelet_model::SandboxState::Ready;

use super::*;
use crate::pod::Grants;
use crate::pod::testkit::Is::{Created, Exited, Running, Unknown};
use crate::pod::testkit::{self, Is, instance, pod};
use crate::probe::OfContainer;

struct Case {
    pod: Pod,
    runtime: PodStatus,
    before: Option<ApiStatus>,
    troubles: BTreeMap<Arc<str>, Trouble>,
    replaced: Replaced,
    verdicts: Verdicts,
    lacks_sandbox: bool,
    is_over: bool,
    features: RuntimeFeatures,
    resize_pending: Option<ResizePending>,
    resize_error: Option<String>,
}

impl Case {
    fn new(policy: &str, init: &[&str], containers: &[&str], are: &[(&str, Is)]) -> Self {
        Self {
            pod: pod(policy, init, containers),
            runtime: testkit::status(Ready, are),
            before: None,
            troubles: BTreeMap::new(),
            replaced: Replaced::default(),
            verdicts: Verdicts::without_probes(),
            lacks_sandbox: false,
            is_over: false,
            features: RuntimeFeatures::default(),
            resize_pending: None,
            resize_error: None,
        }
    }

    fn trouble(mut self, name: &str, reason: &'static str) -> Self {
        self.troubles.insert(name.into(), Trouble { reason, message: "why".to_owned() });
        self
    }

    /// Records that its first instance was ended in order to be restarted.
    fn replaced(mut self, name: &str) -> Self {
        let container = self.pod.spec.as_ref().unwrap().containers.iter().find(|own| own.name == name);
        self.replaced.note(&self.pod, container.unwrap(), &format!("{name}-0").as_str().into());
        self
    }

    /// Gives the first instance of a container probes, with these results.
    fn probed(mut self, name: &str, verdict: OfContainer) -> Self {
        let spec = self.pod.spec.as_mut().unwrap();
        let mut all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        let container = all.find(|own| own.name == name).unwrap();
        container.startup_probe = Some(Probe::default());
        container.readiness_probe = Some(Probe::default());
        self.verdicts = self.verdicts.with(&format!("{name}-0"), verdict);
        self
    }

    fn over(mut self) -> Self {
        self.is_over = true;
        self
    }

    fn status(&self) -> ApiStatus {
        let status = generate(Inputs {
            pod: &self.pod,
            runtime: &self.runtime,
            before: self.before.as_ref(),
            troubles: &self.troubles,
            grants: &Grants::default(),
            replaced: &self.replaced,
            verdicts: &self.verdicts,
            last_words: &BTreeMap::from([("c1-0".into(), "last words".to_owned())]),
            is_over: self.is_over,
            lacks_sandbox: self.lacks_sandbox,
            runtime_name: "test",
            host_ips: &["192.0.2.1".parse().unwrap()],
            features: self.features,
            resize_pending: self.resize_pending.as_ref(),
            resize_error: self.resize_error.as_deref(),
        });
        settle(&self.pod, self.before.as_ref(), status, UnixNanos(5_000_000_000)).unwrap()
    }
}

/// Describes a state in a word: `running`, `waiting ContainerCreating`, `ended 3 Error`.
fn word(state: Option<&k8s_openapi::api::core::v1::ContainerState>) -> String {
    let Some(state) = state else { return "nothing".to_owned() };
    if state.running.is_some() {
        "running".to_owned()
    } else if let Some(ended) = &state.terminated {
        format!("ended {} {}", ended.exit_code, ended.reason.as_deref().unwrap_or("-"))
    } else {
        let reason = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
        format!("waiting {}", reason.unwrap_or("-"))
    }
}

fn container<'a>(status: &'a ApiStatus, name: &str) -> &'a ApiContainer {
    let init = status.init_container_statuses.iter().flatten();
    let regular = status.container_statuses.iter().flatten();
    init.chain(regular).find(|status| status.name == name).unwrap()
}

fn told(status: &ApiStatus, name: &str) -> String {
    let container = container(status, name);
    format!("{}; before: {}", word(container.state.as_ref()), word(container.last_state.as_ref()))
}

#[test]
fn phases() {
    let table: [(&str, Case, &str); 23] = [
        ("nothing yet", Case::new("Always", &[], &["a"], &[]), "Pending"),
        ("made", Case::new("Always", &[], &["a"], &[("a", Created)]), "Pending"),
        ("running", Case::new("Always", &[], &["a", "b"], &[("a", Running), ("b", Running)]), "Running"),
        ("one is missing", Case::new("Always", &[], &["a", "b"], &[("a", Running)]), "Pending"),
        ("crashed", Case::new("Always", &[], &["a"], &[("a", Exited(1))]), "Running"),
        (
            "in back-off",
            Case::new("Always", &[], &["a"], &[("a", Exited(1))]).trouble("a", "CrashLoopBackOff"),
            "Running",
        ),
        ("done, Always", Case::new("Always", &[], &["a"], &[("a", Exited(0))]), "Running"),
        ("done", Case::new("OnFailure", &[], &["a"], &[("a", Exited(0))]), "Succeeded"),
        ("done", Case::new("Never", &[], &["a"], &[("a", Exited(0))]), "Succeeded"),
        ("failed", Case::new("Never", &[], &["a"], &[("a", Exited(1))]), "Failed"),
        ("will be tried again", Case::new("OnFailure", &[], &["a"], &[("a", Exited(1))]), "Running"),
        ("half done", Case::new("Never", &[], &["a", "b"], &[("a", Exited(0)), ("b", Running)]), "Running"),
        ("mixed", Case::new("Never", &[], &["a", "b"], &[("a", Exited(0)), ("b", Exited(2))]), "Failed"),
        ("init runs", Case::new("Always", &["i"], &["a"], &[("i", Running)]), "Pending"),
        ("init failed", Case::new("Never", &["i"], &["a"], &[("i", Exited(1))]), "Failed"),
        ("init is tried again", Case::new("Always", &["i"], &["a"], &[("i", Exited(1))]), "Pending"),
        (
            "init in back-off",
            Case::new("Always", &["i"], &["a"], &[("i", Exited(1))]).trouble("i", "CrashLoopBackOff"),
            "Pending",
        ),
        ("init done", Case::new("Always", &["i"], &["a"], &[("i", Exited(0)), ("a", Running)]), "Running"),
        ("sidecar only", Case::new("Always", &["s*"], &["a"], &[("s", Running)]), "Pending"),
        ("sidecar too", Case::new("Always", &["s*"], &["a"], &[("s", Running), ("a", Running)]), "Running"),
        (
            "the sidecar does not count",
            Case::new("Never", &["s*"], &["a"], &[("s", Exited(137)), ("a", Exited(0))]),
            "Succeeded",
        ),
        ("stopped by us", Case::new("Always", &[], &["a"], &[("a", Exited(143))]).over(), "Failed"),
        ("stopped well", Case::new("Always", &[], &["a"], &[("a", Exited(0))]).over(), "Succeeded"),
    ];
    for (what, case, wanted) in table {
        assert_eq!(case.status().phase.as_deref(), Some(wanted), "{what}");
    }
}

#[test]
fn an_end_is_final() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    case.before = Some(ApiStatus {
        phase: Some("Failed".to_owned()),
        reason: Some("DeadlineExceeded".to_owned()),
        ..ApiStatus::default()
    });
    let status = case.status();
    assert_eq!(
        (status.phase.as_deref(), status.reason.as_deref()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
}

#[test]
fn states_of_containers() {
    let table: [(&str, Case, &str); 11] = [
        ("new", Case::new("Always", &[], &["c1"], &[]), "waiting ContainerCreating; before: nothing"),
        (
            "new, after init",
            Case::new("Always", &["i"], &["c1"], &[]),
            "waiting PodInitializing; before: nothing",
        ),
        ("made", Case::new("Always", &[], &["c1"], &[("c1", Created)]), "waiting -; before: nothing"),
        ("running", Case::new("Always", &[], &["c1"], &[("c1", Running)]), "running; before: nothing"),
        ("ended", Case::new("Never", &[], &["c1"], &[("c1", Exited(3))]), "ended 3 Error; before: nothing"),
        ("unknown", Case::new("Always", &[], &["c1"], &[("c1", Unknown)]), "waiting -; before: nothing"),
        (
            "no image",
            Case::new("Always", &[], &["c1"], &[]).trouble("c1", "ErrImagePull"),
            "waiting ErrImagePull; before: nothing",
        ),
        (
            "crash loop",
            Case::new("Always", &[], &["c1"], &[("c1", Exited(3))]).trouble("c1", "CrashLoopBackOff"),
            "waiting CrashLoopBackOff; before: ended 3 Error",
        ),
        (
            "an old trouble does not hide a running container",
            Case::new("Always", &[], &["c1"], &[("c1", Running)]).trouble("c1", "CrashLoopBackOff"),
            "running; before: nothing",
        ),
        (
            "nor one that will not start again",
            Case::new("Never", &[], &["c1"], &[("c1", Exited(3))]).trouble("c1", "RunContainerError"),
            "ended 3 Error; before: nothing",
        ),
        (
            "lost at the end",
            Case::new("Always", &[], &["c1"], &[("c1", Unknown)]).over(),
            "ended 137 ContainerStatusUnknown; before: nothing",
        ),
    ];
    for (what, case, wanted) in table {
        assert_eq!(told(&case.status(), "c1"), wanted, "{what}");
    }
}

#[test]
fn the_instance_before_is_the_last_state() {
    let mut case = Case::new("Always", &[], &["c1"], &[]);
    case.runtime.containers =
        vec![instance("c1", 1, Running, "sandbox-0"), instance("c1", 0, Exited(7), "sandbox-0")];
    let status = case.status();
    assert_eq!(told(&status, "c1"), "running; before: ended 7 Error");
    assert_eq!(container(&status, "c1").restart_count, 1);
    let last = container(&status, "c1").last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(last.message.as_deref(), Some("last words"));
    assert_eq!(last.container_id.as_deref(), Some("test://c1-0"));

    case.before = Some(status);
    case.runtime.containers.pop();
    assert_eq!(told(&case.status(), "c1"), "running; before: ended 7 Error", "even when it is gone");
    case.runtime.containers = vec![instance("c1", 2, Running, "sandbox-0")];
    assert_eq!(told(&case.status(), "c1"), "running; before: ended 7 Error", "or when more are");
}

#[test]
fn a_container_that_could_not_be_started_began_in_1970() {
    let mut case = Case::new("Never", &[], &["c1"], &[("c1", Exited(128))]);
    for (started, finished, wanted) in [
        (0, 3_000_000_000, ["1970-01-01T00:00:00Z", "1970-01-01T00:00:03Z"]),
        (2_000_000_000, 0, ["1970-01-01T00:00:02Z", "1970-01-01T00:00:00Z"]),
    ] {
        let instance = &mut case.runtime.containers[0];
        (instance.started_at, instance.finished_at) = (UnixNanos(started), UnixNanos(finished));
        let ended = container(&case.status(), "c1").state.clone().unwrap().terminated.unwrap();
        let told = [ended.started_at, ended.finished_at].map(|time| time.unwrap().0.to_string());
        assert_eq!(told, wanted);
    }
    // A container that was only created has no times at all.
    let created = Case::new("Always", &[], &["c1"], &[("c1", Created)]).status();
    assert_eq!(word(container(&created, "c1").state.as_ref()), "waiting -");
}

#[test]
fn no_instance_is_the_one_before_itself() {
    let mut case = Case::new("Always", &[], &["c1"], &[("c1", Exited(7))]).trouble("c1", "CrashLoopBackOff");
    let status = case.status();
    assert_eq!(told(&status, "c1"), "waiting CrashLoopBackOff; before: ended 7 Error");
    case = Case::new("Always", &[], &["c1"], &[("c1", Exited(7))]);
    case.before = Some(status);
    assert_eq!(
        told(&case.status(), "c1"),
        "ended 7 Error; before: nothing",
        "there is no next one to wait for"
    );
}

#[test]
fn a_running_container_that_vanished_is_not_forgotten() {
    let mut case = Case::new("Always", &[], &["c1"], &[("c1", Running)]);
    case.before = Some(case.status());
    case.runtime.containers.clear();
    let status = case.status();
    assert_eq!(told(&status, "c1"), "waiting ContainerCreating; before: ended 137 ContainerStatusUnknown");
    assert_eq!(container(&status, "c1").restart_count, 1);
    case.runtime = testkit::status(Ready, &[("c1", Unknown)]);
    assert_eq!(word(container(&case.status(), "c1").state.as_ref()), "ended 137 ContainerStatusUnknown");
}

#[test]
fn an_init_container_that_was_cleaned_up_has_completed() {
    let case = Case::new("Always", &["i"], &["c1"], &[("c1", Running)]);
    let status = case.status();
    assert_eq!(told(&status, "i"), "ended 0 Completed; before: nothing");
    assert!(container(&status, "i").ready);
}

fn condition(status: &ApiStatus, kind: &str) -> (String, String) {
    let all = status.conditions.as_deref().unwrap();
    let found = all.iter().find(|condition| condition.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone().unwrap_or_default())
}

#[test]
fn conditions() {
    let yes = ("True", "");
    // Initialized, ContainersReady
    let table = [
        (
            Case::new("Always", &["i"], &["a"], &[]),
            ("False", "ContainersNotInitialized"),
            ("False", "ContainersNotReady"),
        ),
        (Case::new("Always", &["i"], &["a"], &[("i", Exited(0))]), yes, ("False", "ContainersNotReady")),
        (Case::new("Always", &[], &["a"], &[("a", Running)]), yes, yes),
        (
            Case::new("Always", &["s*"], &["a"], &[("s", Exited(1)), ("a", Running)]),
            yes,
            ("False", "ContainersNotReady"),
        ),
        (
            Case::new("Never", &[], &["a"], &[("a", Exited(0))]),
            ("True", "PodCompleted"),
            ("False", "PodCompleted"),
        ),
        (Case::new("Never", &[], &["a"], &[("a", Exited(1))]), yes, ("False", "PodFailed")),
    ];
    for (case, initialized, ready) in table {
        let status = case.status();
        let text = |(status, reason): (&str, &str)| (status.to_owned(), reason.to_owned());
        assert_eq!(condition(&status, "Initialized"), text(initialized), "{:?}", case.runtime.containers);
        assert_eq!(condition(&status, "ContainersReady"), text(ready), "{:?}", case.runtime.containers);
        assert_eq!(condition(&status, "Ready"), text(ready), "{:?}", case.runtime.containers);
        assert_eq!(condition(&status, "PodScheduled"), text(yes));
        assert_eq!(condition(&status, "PodReadyToStartContainers"), text(yes));
        let without_sandbox = Case { lacks_sandbox: true, ..case }.status();
        assert_eq!(condition(&without_sandbox, "PodReadyToStartContainers"), text(("False", "")));
    }
}

#[test]
fn a_condition_keeps_the_time_of_its_last_change() {
    let mut case = Case::new("Always", &[], &["a"], &[("a", Running)]);
    let mut before = case.status();
    let early = time(UnixNanos(1_000_000_000));
    for condition in before.conditions.as_mut().unwrap() {
        condition.last_transition_time.clone_from(&early);
    }
    before.start_time.clone_from(&early);
    case.before = Some(before);
    let status = case.status();
    assert!(status.conditions.unwrap().iter().all(|condition| condition.last_transition_time == early));
    assert_eq!(status.start_time, early);
}
