//! The status of a pod survives the agent and everything that the runtime knew, as after a reboot.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::node::{Node, restarts, signal_to, state, text};

/// Removes what a machine that forgets its containers loses in a reboot: sandboxes, containers and logs.
fn forget_everything(node: &Node) {
    let root = node.path("data").display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    // Mounts do not survive a reboot either.
    for point in points.filter(|point| point.starts_with(&root)).collect::<Vec<_>>().into_iter().rev() {
        let status = Command::new("umount").arg("-l").arg(point).status().expect("umount runs");
        assert!(status.success(), "umount {point}");
    }
    for folder in ["data/containers", "data/sandboxes", "logs"] {
        // The process that waited for a container that was just killed may still write its last output.
        node.until(folder, || fs::remove_dir_all(node.path(folder)).is_ok() || !node.path(folder).exists());
    }
}

/// Waits until these words of some pod are on the disk.
fn until_kept(node: &Node, words: &str) {
    node.until(words, || {
        let pods = fs::read_dir(node.path("data/pods")).expect("a folder").flatten();
        let mut texts = pods.filter_map(|pod| fs::read_to_string(pod.path().join("status.json")).ok());
        texts.any(|text| text.contains(words))
    });
}

#[test]
fn a_job_that_finished_does_not_run_again() {
    let Some(mut node) = Node::start() else { return };
    let job = |name: &str, policy: &str, code: u8| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  restartPolicy: {policy}\n  \
             containers:\n  - name: c\n    image: host\n    imagePullPolicy: IfNotPresent\n    \
             command: [sh, -c, 'echo ran >> /out/{name}; exit {code}']\n    \
             volumeMounts: [{{name: out, mountPath: /out}}]\n  volumes: [{{name: out, hostPath: {{path: {}}}}}]\n",
            node.path("").display()
        )
    };
    let jobs = [("bad", "Never", 3, "Failed"), ("good", "OnFailure", 0, "Succeeded")];
    let texts: Vec<String> = jobs.iter().map(|(name, policy, code, _)| job(name, policy, *code)).collect();
    for ((name, ..), text) in jobs.iter().zip(&texts) {
        node.write(&format!("{name}.yaml"), text);
    }
    let before: Vec<_> = jobs.iter().map(|(name, _, _, phase)| node.until_phase(name, phase)).collect();
    until_kept(&node, "\"phase\":\"Failed\"");
    until_kept(&node, "\"phase\":\"Succeeded\"");
    for round in ["the agent alone", "everything"] {
        node.end_agent("-KILL");
        if round == "everything" {
            forget_everything(&node);
        }
        node.start_agent();
        node.until("the agent to look at both", || jobs.iter().all(|(name, ..)| node.pod(name).is_some()));
        for ((name, _, code, phase), before) in jobs.iter().zip(&before) {
            let now = node.until_phase(name, phase);
            assert_eq!(state(&now)["terminated"]["exitCode"], *code, "{name} after {round}");
            assert_eq!(now["status"]["startTime"], before["status"]["startTime"], "{name} after {round}");
            let ran = fs::read_to_string(node.path(name)).expect("it ran");
            assert_eq!(ran, "ran\n", "{name} after {round}");
        }
    }
}

#[test]
fn a_pod_goes_on_counting_after_everything_was_lost() {
    let Some(mut node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    signal_to(node.sleeper(1), "-KILL");
    let is_on = |count: i64| move |pod: &Value| restarts(pod) == count && state(pod)["running"].is_object();
    let before = node.until_pod("web", "restarted", is_on(1));
    for (round, count) in [("the agent and the container", 1), ("everything", 2)] {
        until_kept(&node, &format!("\"restartCount\":{count}"));
        let sleeper = node.sleeper(1);
        node.end_agent("-KILL");
        signal_to(sleeper, "-KILL");
        node.until("its end", || node.sleepers(1).is_empty());
        if round == "everything" {
            forget_everything(&node);
        }
        node.start_agent();
        let after = node.until_pod("web", round, is_on(count + 1));
        assert_eq!(after["status"]["startTime"], before["status"]["startTime"], "{round}");
        let last = &after["status"]["containerStatuses"][0]["lastState"]["terminated"];
        assert_eq!(last["exitCode"], 137, "{round}: {after:#}");
    }
}

#[test]
fn events_are_told_in_words_and_as_objects() {
    let Some(node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    signal_to(node.sleeper(1), "-KILL");
    node.until_pod("web", "restarted", |pod| restarts(pod) == 1);
    node.until("both starts counted", || text(&node.ask(&["events", "web-n"])).1.contains("(x2 over "));
    let (code, out, err) = text(&node.ask(&["events", "web-n", "-o", "json", "--types", "Normal"]));
    assert_eq!(code, Some(0), "{err}");
    let list: Value = serde_json::from_str(&out).expect("JSON");
    let events = list["items"].as_array().expect("a list");
    let started = events.iter().find(|event| event["reason"] == "Started").expect("it started");
    assert_eq!(started["kind"], "Event");
    assert_eq!(started["count"], 2);
    assert_eq!(started["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(started["involvedObject"]["name"], "web-n");
    let (_, out, _) = text(&node.ask(&["events", "web-n", "--types", "Warning"]));
    assert!(!out.contains("Started"), "{out}");
    let (_, out, _) = text(&node.ask(&["describe", "web-n"]));
    for words in
        ["Name:          web-n", "QoS Class:", "Restart Count: 1", "Last State:    Terminated", "Events:"]
    {
        assert!(out.contains(words), "{words}\n{out}");
    }
    for format in ["json", "yaml"] {
        let (code, out, err) = text(&node.ask(&["describe", "web-n", "-o", format]));
        assert!(code == Some(0) && out.contains("containerStatuses"), "{out}{err}");
    }
    let (_, out, _) = text(&node.ask(&["ps", "-o", "wide"]));
    let (names, values) = out.split_once('\n').expect("a header");
    let column = names.find("NODE").expect("a column");
    assert!(values[column..].starts_with("n ") && names.ends_with("DETAIL"), "{out}");
}

/// A runtime that was killed at a bad moment may have forgotten a process that it had started.
#[test]
fn what_the_runtime_has_forgotten_does_not_outlive_its_pod() {
    let Some(mut node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    let groups = node.pod_groups();
    if groups.is_empty() {
        eprintln!("SKIPPED: pods have no control groups here");
        return;
    }
    let mut forgotten = std::process::Command::new("sleep").arg(node.seconds(2)).spawn().expect("it starts");
    for group in &groups {
        std::fs::write(group.join("cgroup.procs"), forgotten.id().to_string()).expect("it is put there");
    }
    node.end_agent("-TERM");
    node.end_pods();
    let ended = forgotten.wait().expect("it was ours");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9), "{ended}");
    assert_eq!(node.pod_groups(), Vec::<std::path::PathBuf>::new());
    node.assert_clean();
}

/// A second runtime would get the same pods, and nothing would manage those in the first any more.
#[test]
fn pods_do_not_run_in_a_second_runtime_too() {
    let Some(mut node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    node.end_agent("-TERM");
    let other = format!("unix://{}", node.path("other.sock").display());
    node.on(Some(other.clone()));
    let run = || text(&node.run_command().output().expect("it runs"));
    let (code, _, err) = run();
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains(&format!("run in the embedded runtime; starting them in {other} would run them twice")),
        "{err}"
    );
    let data = node.path("data");
    assert!(err.contains(&format!("`rubelet stop --all --data-dir {}`", data.display())), "{err}");
    assert_eq!(node.sleepers(1).len(), 1);

    // The pods are still known to be this node's.
    node.end_pods();
    assert!(node.sleepers(1).is_empty());
    let (code, _, err) = run();
    assert!(code == Some(3) && err.contains("other.sock"), "now it is free to be used: {err}");
}
