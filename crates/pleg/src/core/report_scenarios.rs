//! The report as programs read it.

use serde_json::json;

use super::harness::{Harness, Running, pod};
use super::*;
use crate::observe::Call;
use crate::report::Report;

#[test]
fn stages_and_pods_have_their_last_success_call_target_and_age() {
    let mut pleg = Harness::new();
    let (web, db) = (pod("A", &[("c", Running)]), pod("B", &[("d", Running)]));
    pleg.relist(vec![web.clone(), db.clone()]);
    let at = pleg.now().stamp;
    pleg.step(Input::Nudge { pod: "B".into(), at });
    pleg.answer_look("B", Some(db.clone()));
    pleg.hanging.insert("A".into());
    pleg.relist(vec![pod("A", &[("c", Running), ("e", Running)]), db]);
    let begun = pleg.now().stamp;
    let waits =
        |call, target: Option<&str>| CallInFlight { call, target: target.map(Into::into), since: begun };
    let calls = [
        (Stage::List, waits(Call::ListPodSandbox, None)),
        (Stage::Look("unknown".into()), waits(Call::ListContainers, None)),
        (Stage::Inspect("A".into()), waits(Call::ContainerStatus, Some("e"))),
    ];
    pleg.pass(Duration::from_secs(5));
    let now = pleg.now().stamp;
    let report = Report::new(&pleg.core, &calls, now);
    let mut found = serde_json::to_value(&report).expect("JSON");
    to_whole_seconds(&mut found);
    let web = json!({"uid": "A", "namespace": "ns", "name": "A"});
    let list_call = json!({"call": "list_pod_sandbox", "ageSeconds": 5.0});
    let web_call = json!({"call": "container_status", "target": "e", "ageSeconds": 5.0});
    let wanted = json!({
        "health": {
            "healthy": true,
            "lastListSeconds": 5.0,
            "lastLookSeconds": 7.0,
            "lastInspectionSeconds": 7.0,
            "listFailures": 0,
            "listCall": list_call,
            "unreadableEntries": 0,
            "stuckPods": [
                {"pod": web, "ageSeconds": 5.0, "lastSuccessSeconds": 7.0, "call": web_call, "failures": 0},
            ],
            "waitingPods": 0,
        },
        "stream": {"open": false, "opened": 0, "heard": 0, "unannounced": 0, "shortLives": 0},
        "relistPeriodSeconds": 1.0,
        "pods": 2,
        "inspectionsInFlight": 1,
        "calls": [
            {"stage": "list", "call": "list_pod_sandbox", "ageSeconds": 5.0},
            {
                "stage": "look",
                "pod": {"uid": "unknown", "namespace": "", "name": ""},
                "call": "list_containers",
                "ageSeconds": 5.0,
            },
            {"stage": "inspect", "pod": web, "call": "container_status", "target": "e", "ageSeconds": 5.0},
        ],
    });
    assert_eq!(found, wanted, "{found:#}");
}

/// The harness lets a nanosecond pass at every step.
fn to_whole_seconds(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => fields.values_mut().for_each(to_whole_seconds),
        serde_json::Value::Array(items) => items.iter_mut().for_each(to_whole_seconds),
        serde_json::Value::Number(number) if number.is_f64() => {
            *value = json!(number.as_f64().map(f64::round));
        }
        _ => {}
    }
}
