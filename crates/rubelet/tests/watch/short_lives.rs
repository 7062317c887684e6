//! Containers that are gone before they can be inspected, on a real containerd 2.x.

use std::collections::{BTreeMap, BTreeSet};

use rubelet_cri::RuntimeClient;
use rubelet_cri::v1::ContainerEventType;
use rubelet_testbed::{Flavor, require};
use serde_json::Value;

use crate::pods::{Pod, client_of};
use crate::program::{PATIENCE, Watching};

const LIVES: usize = 50;

/// Returns the events of one container, by kind. If its end was corrected, which a `PodSync` does that names it, that is
/// how it died: containerd makes up an end for a container that it is just forgetting.
fn facts(watching: &Watching, name: &str) -> BTreeMap<String, Value> {
    let events = watching.seen().iter().filter(|object| object["container"] == name);
    let mut facts: BTreeMap<String, Value> =
        events.map(|event| (event["event"].as_str().expect("a kind").to_owned(), event.clone())).collect();
    if let Some(correction) = facts.remove("PodSync") {
        assert!(correction["exitCode"].is_i64(), "it corrects nothing: {correction:#?}");
        let reported = facts.insert("ContainerDied".to_owned(), correction);
        assert!(reported.is_some(), "nothing was reported that could be corrected");
    }
    facts
}

/// Starts a pod, and a watch that reports what is run in it.
async fn watched_pod(endpoint: &str, client: &RuntimeClient) -> (Pod, Watching) {
    let pod = Pod::run(client, "host").await;
    let mut watching = Watching::start(endpoint, &[]);
    watching.pod("host").await;
    pod.start("ready", "exit 0").await;
    watching.event("ContainerDied", "host", "ready").await;
    (pod, watching)
}

#[tokio::test]
async fn containers_that_are_removed_as_soon_as_they_run_are_told_with_exit_codes() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let (pod, mut watching) = watched_pod(&containerd.endpoint(), &client).await;

    // What containerd itself announces: it may have forgotten a container by the time it is to report its exit.
    let witness = client_of(&containerd.endpoint());
    let mut announced = witness.get_container_events().await.expect("a stream");
    let mut containers = Vec::new();
    for number in 0..LIVES {
        let container = pod.start(&format!("brief-{number}"), "exec sleep 1000").await;
        client.remove_container(&container).await.expect("removed");
        containers.push(container.to_string());
    }
    // Anything that is announced after the end of this one does not matter here.
    let last = pod.start("last", "exit 0").await.to_string();
    let mut with_exit_code = BTreeSet::new();
    let all = async {
        while !with_exit_code.contains(&last) {
            let event = announced.next().await.expect("it goes on").expect("an event");
            let ends = event.containers_statuses.into_iter().filter(|status| status.finished_at > 0);
            with_exit_code.extend(ends.filter(|end| end.id == event.container_id).map(|end| end.id));
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("its end is announced");
    with_exit_code.remove(&last);
    assert!(!with_exit_code.is_empty(), "containerd announces no ends");
    for (number, container) in containers.iter().enumerate() {
        let name = format!("brief-{number}");
        if !facts(&watching, &name).contains_key("ContainerRemoved") {
            watching.event("ContainerRemoved", "host", &name).await;
        }
        let facts = facts(&watching, &name);
        let kinds: Vec<&str> = facts.keys().map(String::as_str).collect();
        assert_eq!(kinds, ["ContainerDied", "ContainerRemoved", "ContainerStarted"], "{name}");
        if with_exit_code.contains(container) {
            assert_eq!(facts["ContainerDied"]["exitCode"], 137, "{name}: {facts:#?}");
        }
    }
    pod.remove().await;
}

#[tokio::test]
async fn an_exit_code_is_told_although_somebody_removes_the_container_at_once() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let (pod, mut watching) = watched_pod(&containerd.endpoint(), &client).await;

    // Another client that removes containers as soon as their ends are announced.
    let rival = client_of(&containerd.endpoint());
    let mut ends = rival.get_container_events().await.expect("a stream");
    let tidying = tokio::spawn(async move {
        let mut removed = 0;
        while removed < LIVES {
            let event = ends.next().await.expect("it goes on").expect("an event");
            if event.container_event_type == i32::from(ContainerEventType::ContainerStoppedEvent) {
                rival.remove_container(&event.container_id.into()).await.expect("removed");
                removed += 1;
            }
        }
    });
    for number in 0..LIVES {
        pod.start(&format!("brief-{number}"), &format!("exit {number}")).await;
    }
    tidying.await.expect("it went well");
    for number in 0..LIVES {
        let name = format!("brief-{number}");
        if !facts(&watching, &name).contains_key("ContainerRemoved") {
            watching.event("ContainerRemoved", "host", &name).await;
        }
        let facts = facts(&watching, &name);
        let died = facts.get("ContainerDied").unwrap_or_else(|| panic!("{name}: no end, only {facts:#?}"));
        assert_eq!(died["exitCode"], number, "{name}: {died}");
    }
    pod.remove().await;
}
