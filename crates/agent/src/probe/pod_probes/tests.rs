use std::time::Duration;

use k8s_openapi::api::core::v1::ExecAction;
use rubelet_model::SandboxState;

use super::*;
use crate::pod::testkit::{self, Is};
use crate::probe::{Gate, ProbeLimits};
use crate::reach::PodHttp;
use crate::testkit::FakeRuntime;

/// Returns a pod whose container is probed at this interval, and left alone for its first ten minutes.
fn asked_every(seconds: i32) -> Pod {
    let mut pod = testkit::pod("Always", &[], &["web"]);
    let command = Some(vec!["live".to_owned()]);
    pod.spec.as_mut().unwrap().containers[0].liveness_probe = Some(Probe {
        exec: Some(ExecAction { command }),
        initial_delay_seconds: Some(600),
        period_seconds: Some(seconds),
        ..Probe::default()
    });
    pod
}

fn probes(runtime: &FakeRuntime) -> PodProbes<FakeRuntime> {
    let (clock, metrics) = (Clock::start(), ProbeMetrics::default());
    let asker = Asker {
        runtime: Arc::new(runtime.clone()),
        http: PodHttp::default(),
        gate: Gate::new(ProbeLimits::default(), metrics.clone()),
    };
    let prober = Prober { asker, clock: clock.clone(), metrics };
    PodProbes::new(
        Arc::new(prober),
        Journal::new(clock),
        PodRef::new("uid", "default", "web"),
        Disk::default(),
    )
}

/// Returns how often it was probed in this time.
async fn asked_in(runtime: &FakeRuntime, seconds: u64) -> usize {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    runtime.take_execs().len()
}

/// According to the runtime, all containers here are many years old, so their age is what has been observed.
#[tokio::test(start_paused = true)]
async fn a_container_is_left_alone_once_however_often_its_probe_changes() {
    let runtime = FakeRuntime::default();
    let mut probes = probes(&runtime);
    let status = |containers: &[(&str, Is)]| testkit::status(SandboxState::Ready, containers);
    probes.tend(&asked_every(10), &status(&[]), &[], false);
    probes.tend(&asked_every(10), &status(&[("web", Is::Running)]), &[], false);
    assert_eq!(asked_in(&runtime, 300).await, 0, "it is young");
    probes.tend(&asked_every(10), &status(&[("web", Is::Running)]), &[], false);
    assert_eq!(asked_in(&runtime, 295).await, 0, "it is young still");
    probes.tend(&asked_every(20), &status(&[("web", Is::Running)]), &[], false);
    assert_eq!(asked_in(&runtime, 10).await, 1, "its delay is over, whatever has changed");

    probes.tend(&asked_every(20), &status(&[("web", Is::Unknown)]), &[], false);
    probes.tend(&asked_every(20), &status(&[("web", Is::Running)]), &[], false);
    assert_eq!(asked_in(&runtime, 1).await, 1, "it is the same instance");

    let mut next = status(&[]);
    next.containers.push(testkit::instance("web", 1, Is::Running, "sandbox-0"));
    probes.tend(&asked_every(20), &next, &[], false);
    assert_eq!(asked_in(&runtime, 595).await, 0, "a new instance is young");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_changes_nothing_is_for_the_journal_only() {
    let runtime = FakeRuntime::default();
    runtime.exec_answers("live", 1, "dying");
    let mut probes = probes(&runtime);
    let status = testkit::status(SandboxState::Ready, &[("web", Is::Running)]);
    probes.tend(&asked_every(10), &status, &[], false);
    probes.verdicts();
    let news = probes.journal.clone();
    tokio::select! {
        biased;
        () = probes.changed() => panic!("it may fail twice more"),
        () = news.changed() => {}
    }
    assert_eq!(news.told()[0].message, "Liveness probe failed: dying");
    tokio::time::timeout(Duration::from_secs(60), probes.changed()).await.expect("it has failed three times");
}
