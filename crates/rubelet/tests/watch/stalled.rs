//! A watch without a reader, or a watch or recording that was stopped with Ctrl-Z, must not block containerd:
//! containerd 2.x stops creating pods when a reader of its events stops reading. That containerd does so is tested as
//! well.

use std::collections::HashMap;
use std::io::PipeReader;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rubelet_cri::RuntimeClient;
use rubelet_testbed::{Flavor, require};
use tokio::process::Child;
use tokio::task::JoinSet;

use crate::containerd::changes_come_by_the_stream;
use crate::pods::{Pod, client_of};
use crate::program::{PATIENCE, Watching, rubelet, run, signal, wait_for_state};

const PODS: usize = 100;
/// Each event carries the annotations of its pod; all of them together are far larger than the buffers between the
/// runtime and a stalled reader.
const ANNOTATION_BYTES: usize = 16 << 10;
const AT_A_TIME: usize = 4;
/// If no pod is created or removed for this long, containerd is blocked. A wrong guess is detected: hanging up the
/// reader then does not unblock anything.
const STANDSTILL: Duration = Duration::from_secs(15);

/// Creates pods and removes them again. Fails if any call does not return.
async fn make_and_remove_pods(client: &RuntimeClient, prefix: &str) {
    make_remove_and_count_pods(client, prefix, &Arc::default()).await;
}

async fn make_remove_and_count_pods(client: &RuntimeClient, prefix: &str, done: &Arc<AtomicUsize>) {
    let mut under_way = JoinSet::new();
    for number in 0..PODS {
        if under_way.len() == AT_A_TIME {
            under_way.join_next().await.expect("some are under way").expect("it went well");
        }
        let (client, name, done) = (client.clone(), format!("{prefix}-{number}"), done.clone());
        under_way.spawn(async move {
            let annotations = HashMap::from([("ballast".to_owned(), "x".repeat(ANNOTATION_BYTES))]);
            let life = async { Pod::annotated(&client, &name, annotations).await.remove().await };
            tokio::time::timeout(PATIENCE, life).await.unwrap_or_else(|_| panic!("{name}: containerd hangs"));
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.expect("it went well");
    }
}

/// The premise of the other tests: a reader that opens the stream and stops reading blocks containerd until it hangs
/// up. If this fails, containerd has been fixed, and the other tests here prove nothing.
#[tokio::test]
async fn containerd_2_stands_still_with_a_reader_that_does() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let (client, reader) = (client_of(&containerd.endpoint()), client_of(&containerd.endpoint()));
    let mut events = reader.get_container_events().await.expect("a stream");
    let old = Pod::run(&client, "old").await;
    let first = tokio::time::timeout(PATIENCE, events.next()).await.expect("it is announced");
    first.expect("it goes on").expect("an event");

    // From here on, nobody reads.
    let done = Arc::<AtomicUsize>::default();
    let mut making = Box::pin(make_remove_and_count_pods(&client, "frozen", &done));
    let mut so_far = None;
    while so_far != Some(done.load(Ordering::Relaxed)) {
        so_far = Some(done.load(Ordering::Relaxed));
        let making = tokio::time::timeout(STANDSTILL, &mut making).await;
        assert!(making.is_err(), "containerd went on although nobody read its events");
    }
    drop(events);
    reader.hang_up().await;
    making.await;
    assert_eq!(done.load(Ordering::Relaxed), PODS);
    old.remove().await;
}

#[tokio::test]
async fn containerd_2_goes_on_while_nobody_reads_the_output() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let old = Pod::run(&client, "old").await;
    let mut watching = Watching::start(&containerd.endpoint(), &[]);
    watching.shrink_pipe();
    watching.pod("old").await;
    changes_come_by_the_stream(&mut watching, &old, "heard").await;
    let container = old.start("first", "exit 5").await;
    watching.event("ContainerDied", "old", "first").await;

    // From here on, the pipe fills up.
    make_and_remove_pods(&client, "unread").await;
    client.remove_container(&container).await.expect("removed");

    // Nothing was lost: once the output is read again, every pod that came and went is in it.
    watching.event("ContainerRemoved", "old", "first").await;
    for number in 0..PODS {
        let name = format!("unread-{number}");
        let is_removal = |object: &serde_json::Value| {
            object["pod"] == name.as_str()
                && (object["event"] == "ContainerRemoved" || object["event"] == "PodSync")
        };
        if !watching.seen().iter().any(is_removal) {
            watching.wait_for(&format!("the end of {name}"), is_removal).await;
        }
    }
    old.remove().await;
}

/// A watch whose output is full from the beginning.
fn unread(endpoint: &str) -> (Child, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
    std::io::Write::write_all(&mut &writer, &vec![b'\n'; room]).expect("it takes that much");
    let child = rubelet(&["watch", "-o", "json", "-r", endpoint])
        .stdout(Stdio::from(writer))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    (child, reader)
}

#[tokio::test]
async fn ctrl_c_ends_a_watch_that_could_never_print_a_line() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let (mut child, _reader) = unread(&containerd.endpoint());
    make_and_remove_pods(&client_of(&containerd.endpoint()), "mute").await;
    signal(child.id().expect("it runs"), "-INT");
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn containerd_2_goes_on_while_the_watch_stands_still() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let old = Pod::run(&client, "old").await;
    let mut watching = Watching::start(&containerd.endpoint(), &[]);
    watching.pod("old").await;
    changes_come_by_the_stream(&mut watching, &old, "before").await;

    watching.signal("-TSTP");
    wait_for_state(watching.pid(), 'T').await;
    make_and_remove_pods(&client, "unseen").await;
    old.start("meanwhile", "exit 6").await;
    watching.signal("-CONT");

    let stood_still =
        watching.wait_for("word of the standstill", |object| object["type"] == "stoodStill").await;
    assert!(stood_still["afterSeconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{stood_still}");
    assert_eq!(watching.event("ContainerDied", "old", "meanwhile").await["exitCode"], 6);
    assert!(
        watching.seen().iter().all(|object| object["type"] != "runtimeBack"),
        "that we hung up is no restart of the runtime: {:#?}",
        watching.seen()
    );
    changes_come_by_the_stream(&mut watching, &old, "again").await;
    old.remove().await;
    assert_eq!(watching.end().await.code(), Some(0));
}

#[tokio::test]
async fn containerd_2_goes_on_while_a_recording_stands_still() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recording");
    let path = file.display().to_string();
    let mut recording = rubelet(&["record", "-o", &path, "-r", &containerd.endpoint()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = recording.id().expect("it runs");
    let recorded = |text: &'static str| {
        let file = file.clone();
        let waiting = async move {
            while !std::fs::read_to_string(&file).is_ok_and(|recorded| recorded.contains(text)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        async move {
            tokio::time::timeout(PATIENCE, waiting)
                .await
                .unwrap_or_else(|_| panic!("{text} is not recorded"));
        }
    };
    recorded("streamOpened").await;
    signal(pid, "-TSTP");
    wait_for_state(pid, 'T').await;
    make_and_remove_pods(&client, "unseen").await;
    let old = Pod::run(&client, "old").await;
    signal(pid, "-CONT");
    recorded("\"name\":\"old\"").await;
    signal(pid, "-INT");
    let ended = tokio::time::timeout(PATIENCE, recording.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
    let (code, said) = run(rubelet(&["replay", &path])).await;
    assert_eq!(code, Some(0), "{said}");
    old.remove().await;
}
