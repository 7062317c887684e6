//! On real containerds: what the test does to them is printed, with the right exit codes, across a restart.

use std::time::Duration;

use rubelet_testbed::{Containerd, Flavor, require};

use crate::pods::{Pod, client_of};
use crate::program::Watching;

async fn everything_appears(mut containerd: Containerd) {
    let endpoint = containerd.endpoint();
    let client = client_of(&endpoint);
    let old = Pod::run(&client, "old").await;
    old.start("sleeper", "exec sleep 100000").await;

    let mut watching = Watching::start(&endpoint, &[]);
    watching.pod("old").await;

    let new = Pod::run(&client, "new").await;
    watching.event("ContainerStarted", "new", "").await;
    new.start("fails", "exit 3").await;
    let failed = watching.event("ContainerDied", "new", "fails").await;
    assert_eq!((&failed["exitCode"], &failed["reason"]), (&3.into(), &"Error".into()), "{failed}");
    new.start("completes", "exit 0").await;
    let completed = watching.event("ContainerDied", "new", "completes").await;
    assert_eq!(
        (&completed["exitCode"], &completed["reason"]),
        (&0.into(), &"Completed".into()),
        "{completed}"
    );
    let killed = new.start("killed", "exec sleep 100000").await;
    watching.event("ContainerStarted", "new", "killed").await;
    client.stop_container(&killed, Duration::ZERO).await.expect("stopped");
    assert_eq!(watching.event("ContainerDied", "new", "killed").await["exitCode"], 137);
    client.remove_container(&killed).await.expect("removed");
    watching.event("ContainerRemoved", "new", "killed").await;

    containerd.restart().expect("restarted");
    watching.wait_for("word of the restart", |object| object["type"] == "runtimeBack").await;
    assert!(
        watching.seen().iter().all(|object| object["pod"] != "old" || object["type"] == "pod"),
        "the restart changed nothing for a pod that runs on: {:#?}",
        watching.seen()
    );
    old.start("after", "exit 42").await;
    assert_eq!(watching.event("ContainerDied", "old", "after").await["exitCode"], 42);
    if containerd.flavor() == Flavor::V2 {
        changes_come_by_the_stream(&mut watching, &old, "again").await;
    }
    new.remove().await;
    watching.event("ContainerRemoved", "new", "").await;
    old.remove().await;
    watching.event("ContainerRemoved", "old", "").await;
    assert_eq!(watching.end().await.code(), Some(0));
}

/// Waits until the event stream is open, for the first time or again: only then are changes announced, though a list
/// may find them sooner.
pub(crate) async fn changes_come_by_the_stream(watching: &mut Watching, pod: &Pod, prefix: &str) {
    for number in 0..100 {
        let name = format!("{prefix}-{number}");
        pod.start(&name, "exit 0").await;
        if watching.event("ContainerDied", "old", &name).await["trigger"] == "event" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("no event came by the stream");
}

#[tokio::test]
async fn containerd_1_6() {
    let Some(containerd) = require(Flavor::V1_6) else { return };
    everything_appears(containerd).await;
}

#[tokio::test]
async fn containerd_2() {
    let Some(containerd) = require(Flavor::V2) else { return };
    everything_appears(containerd).await;
}
