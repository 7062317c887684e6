//! The texts for what an agent reports, fact by fact.

use super::super::render::text;
use super::super::{Facts, diagnose};
use super::*;
use crate::http::{ProbeReport, SourceReport};

fn pod(name: &str, status: &str, detail: Option<&str>) -> PodFacts {
    PodFacts {
        name: format!("shop/{name}"),
        status: status.to_owned(),
        mood: Mood::of(status),
        detail: detail.map(str::to_owned),
        pulling: None,
        overdue: None,
    }
}

/// The text about an agent that is well except for this change.
fn words(change: impl FnOnce(&mut AgentFacts)) -> String {
    let mut agent = AgentFacts {
        place: "/var/lib/rubelet".to_owned(),
        report: AgentReport { uptime: Duration::from_secs(3_723), surveyed: true, ..AgentReport::default() },
        pods: vec![pod("web", "Running", None)],
    };
    change(&mut agent);
    let facts = Facts {
        runtime: "containerd v2.3.4".to_owned(),
        endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
        agent: Some(agent),
        ..Facts::default()
    };
    anstream::adapter::strip_str(&text(&facts, &diagnose(&facts))).to_string()
}

#[test]
fn an_agent_that_is_well() {
    insta::assert_snapshot!(words(|_| {}));
}

#[test]
fn a_loop_that_stands_still() {
    insta::assert_snapshot!(words(|agent| {
        agent.report.sync_loop =
            Some("sync loop took longer than expected: last round 41s ago; threshold is 30s".to_owned());
    }));
}

#[test]
fn a_source_that_was_not_heard() {
    let unheard = || vec!["file /etc/pods".to_owned(), "http http://x/".to_owned()];
    insta::assert_snapshot!(words(|agent| agent.report.unheard = unheard()));
    let table = [
        (
            2_999,
            true,
            "unclear: ",
            "not read yet: file /etc/pods, http http://x/, 2.9s after the agent started",
        ),
        (
            3_000,
            true,
            "problem: ",
            "not read yet: file /etc/pods, http http://x/, 3s after the agent started",
        ),
        (
            2_000,
            false,
            "unclear: ",
            "the pods on this machine have not been listed yet, 2s after the agent started",
        ),
        (
            9_000,
            false,
            "problem: ",
            "the pods on this machine have not been listed yet, 9s after the agent started",
        ),
    ];
    for (uptime, surveyed, severity, evidence) in table {
        let said = words(|agent| {
            let uptime = Duration::from_millis(uptime);
            agent.report = AgentReport { uptime, surveyed, unheard: unheard(), ..AgentReport::default() };
        });
        assert!(said.contains(severity) && said.contains(evidence), "{said}");
    }
}

#[test]
fn manifests_that_are_broken() {
    insta::assert_snapshot!(words(|agent| {
        let problems = vec!["/etc/pods/web.yaml:7: spec.containers[0].image: Required value".to_owned()];
        agent.report.sources =
            vec![SourceReport { name: "/etc/pods".to_owned(), problems }, SourceReport::default()];
    }));
}

#[test]
fn pods_that_are_in_trouble() {
    insta::assert_snapshot!(
        "one",
        words(|agent| {
            let detail = "main: back-off 40s restarting failed container";
            agent.pods.push(pod("crash", "CrashLoopBackOff", Some(detail)));
        })
    );
    insta::assert_snapshot!(
        "many",
        words(|agent| {
            agent
                .pods
                .extend((0..11).map(|number| pod(&format!("crash-{number}"), "CrashLoopBackOff", None)));
        })
    );
}

#[test]
fn an_image_that_does_not_come_and_a_pod_that_does_not_go() {
    insta::assert_snapshot!(words(|agent| {
        let message = "Pulling image \"r.io/app:1\"".to_owned();
        agent.pods[0].pulling = Some((message, Duration::from_secs(300)));
        let mut stuck = pod("stuck", "Terminating", None);
        stuck.overdue = Some(Duration::from_secs(90));
        agent.pods.push(stuck);
    }));
    let soon = words(|agent| {
        agent.pods[0].pulling = Some((String::new(), Duration::from_secs(119)));
        agent.pods[0].overdue = Some(Duration::from_secs(59));
    });
    assert!(soon.contains("nothing is wrong"), "{soon}");
    let many = words(|agent| {
        agent.pods = (0..50).map(|number| pod(&format!("p{number}"), "Pending", None)).collect();
        for pod in &mut agent.pods {
            pod.pulling = Some(("Pulling".to_owned(), Duration::from_secs(300)));
            pod.overdue = Some(Duration::from_secs(90));
        }
    });
    assert!(many.contains("the image pulls of 42 more pods do not finish"), "{many}");
    assert!(many.contains("42 more pods do not terminate"), "{many}");
}

#[test]
fn calls_of_the_agent_that_hang_and_probes_that_are_late() {
    let call = |call: &str, pod: Option<&str>, age, granted: Option<u64>| CallReport {
        call: call.to_owned(),
        pod: pod.map(str::to_owned),
        target: (call != "run_podsandbox").then(|| "c0ffee".to_owned()),
        age: Duration::from_secs(age),
        granted: granted.map(Duration::from_secs),
    };
    insta::assert_snapshot!(words(|agent| {
        agent.report.calls = vec![
            call("run_podsandbox", Some("shop/web"), 41, Some(0)),
            call("stop_container", Some("shop/db"), 95, Some(60)),
            call("stop_container", Some("shop/in-time"), 59, Some(30)),
            call("pull_image", None, 7_200, None),
        ];
        agent.report.probes = ProbeReport { waiting: 70, longest: Duration::from_millis(8_340) };
    }));
    let many = words(|agent| {
        agent.report.calls = (0..20).map(|_| call("remove_container", None, 60, Some(0))).collect();
    });
    assert!(many.contains("12 more calls of the agent hang"), "{many}");
}

#[test]
fn what_an_agent_tells_of_a_pod() {
    let told = |stage: &str, reasons: &[(&str, i64)]| {
        let event = |(reason, at): &(&str, i64)| {
            serde_json::json!({
                "metadata": {}, "type": "Normal", "reason": reason, "message": "m", "count": 1,
                "involvedObject": {"kind": "Pod", "fieldPath": "spec.containers{main}"},
                "lastTimestamp": jiff::Timestamp::from_second(*at).expect("a moment").to_string(),
            })
        };
        let events: Vec<_> = reasons.iter().map(event).collect();
        let pod = serde_json::json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"containers": [], "terminationGracePeriodSeconds": 10},
        });
        let info = serde_json::json!({"pod": pod, "stage": stage, "events": events});
        PodFacts::of(&serde_json::from_value(info).expect("as an agent tells it"), 100_000_000_000)
    };
    let pulling = |reasons| told("syncing", reasons).pulling.map(|(_, age)| age.as_secs());
    assert_eq!(pulling(&[("Pulling", 40)]), Some(60));
    assert_eq!(pulling(&[("Pulling", 40), ("Pulled", 50)]), None);
    assert_eq!(pulling(&[("Failed", 30), ("Pulling", 40)]), Some(60));
    let overdue = |stage, reasons| told(stage, reasons).overdue.map(|late| late.as_secs());
    assert_eq!(overdue("terminating", &[("Killing", 40)]), Some(50));
    assert_eq!(overdue("terminating", &[("Killing", 95)]), None);
    assert_eq!(overdue("terminating", &[("Killing", 10), ("Killing", 95)]), None, "it was restarted before");
    assert_eq!(overdue("syncing", &[("Killing", 40)]), None, "a container of it was killed, not the pod");
}
