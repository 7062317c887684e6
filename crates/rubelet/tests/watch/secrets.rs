//! The configuration of pods is private: a recording, which may be handed to others, does not contain it.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use rubelet_testbed::{Flavor, require};

use crate::pods::{Pod, client_of};
use crate::program::{PATIENCE, rubelet, run, signal};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn no_recording_has_what_pods_run_with() {
    let Some(containerd) = require(Flavor::V2) else { return };
    let client = client_of(&containerd.endpoint());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording").display().to_string();
    let mut recording = rubelet(&["record", "-o", &path, "-r", &containerd.endpoint()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let recorded = async |text: &str| {
        let waiting = async {
            while !std::fs::read_to_string(&path).is_ok_and(|recorded| recorded.contains(text)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{text} is not recorded"));
    };
    recorded("streamOpened").await;

    let annotations = HashMap::from([("token".to_owned(), SECRET.to_owned())]);
    let pod = Pod::annotated(&client, "vault", annotations).await;
    let environment = [("PASSWORD", SECRET)];
    let ends = pod.create("ends", &["/bin/sh", "-c", "echo $PASSWORD; exit 42", SECRET], &environment).await;
    client.start_container(&ends).await.expect("started");
    recorded("\"exit_code\":42").await;
    let absent = pod.create("absent", &["/nowhere", SECRET], &environment).await;
    client.start_container(&absent).await.expect_err("there is no such file");
    recorded("StartError").await;
    pod.remove().await;

    signal(recording.id().expect("it runs"), "-INT");
    let ended = tokio::time::timeout(PATIENCE, recording.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(!text.contains(SECRET) && !text.contains("PASSWORD"), "{text}");
    let (code, said) = run(rubelet(&["replay", &path])).await;
    assert_eq!(code, Some(0), "{said}");
}
