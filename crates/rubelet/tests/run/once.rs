//! `rubelet run --once`: it runs to completion, prints the logs, and returns the pods' result.

use crate::node::{Node, text};

fn job(name: &str, script: &str, policy: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  restartPolicy: {policy}\n  \
         containers:\n  - name: c\n    image: host\n    imagePullPolicy: IfNotPresent\n    command: [sh, -c, '{script}']\n"
    )
}

#[test]
fn pods_run_to_their_end_and_their_result_is_ours() {
    let Some(node) = Node::new() else { return };
    node.write("good.yaml", &job("good", "echo well done", "Never"));
    // Twice, since the first run must leave nothing behind that would prevent the second.
    for _ in 0..2 {
        let (code, out, err) = text(&node.run_command().arg("--once").output().expect("it runs"));
        assert_eq!((code, out.as_str()), (Some(0), "[good-n/c] well done\n"), "{err}");
        node.assert_clean();
    }
    let twice = "[ -e /out/tried ] && echo again && exit 0; touch /out/tried; echo first; exit 4";
    let volume = format!("  volumes: [{{name: out, hostPath: {{path: {}}}}}]\n", node.path("").display());
    let manifest =
        job("retry", twice, "OnFailure") + "    volumeMounts: [{name: out, mountPath: /out}]\n" + &volume;
    node.write("retry.yaml", &manifest);
    let (code, out, err) = text(&node.run_command().arg("--once").output().expect("it runs"));
    assert_eq!(code, Some(0), "{err}");
    let of_retry: Vec<&str> = out.lines().filter(|line| line.starts_with("[retry-n/c]")).collect();
    assert_eq!(of_retry, ["[retry-n/c] first", "[retry-n/c] again"]);

    node.write("bad.yaml", &job("bad", "echo no luck >&2; exit 3", "Never"));
    let (code, _, err) = text(&node.run_command().arg("--once").output().expect("it runs"));
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("[bad-n/c] no luck\n"), "{err}");
    node.assert_clean();
}

#[test]
fn what_cannot_run_is_said_and_does_not_pass_for_a_success() {
    let Some(node) = Node::new() else { return };
    let once = || text(&node.run_command().arg("--once").output().expect("it runs"));
    let (code, _, err) = once();
    assert!(code == Some(2) && err.contains("nothing to run"), "{err}");

    node.write("broken.yaml", &job("broken", "true", "Sometimes"));
    let (code, _, err) = once();
    assert!(code == Some(2) && err.contains("nothing to run"), "{err}");
    assert!(err.contains("spec.restartPolicy: Unsupported value: \"Sometimes\""), "{err}");

    node.write("good.yaml", &job("good", "echo well done", "Never"));
    let (code, out, err) = once();
    assert_eq!((code, out.as_str()), (Some(5), "[good-n/c] well done\n"), "{err}");
    assert!(err.contains("spec.restartPolicy: Unsupported value: \"Sometimes\""), "{err}");
    node.remove("broken.yaml");

    node.write("bad.yaml", &job("bad", "exit 3", "Never"));
    let (code, _, err) = once();
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("default/bad-n") && err.contains("c: last exit 3 (Error)"), "{err}");
    node.assert_clean();
}

#[test]
fn of_two_pods_of_one_name_the_second_is_not_waited_for() {
    let Some(node) = Node::new() else { return };
    node.write("a.yaml", &job("web", "echo the first", "Never"));
    let (other, second) = (node.path("b.yaml"), job("web", "echo the second", "Never"));
    std::fs::write(&other, second).expect("writable");
    let mut once = node.run_command();
    let (code, out, err) = text(&once.arg(&other).arg("--once").output().expect("it runs"));
    assert_eq!(code, Some(5), "{err}");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(
        err.contains("default/web-n with UID ") && err.contains("did not run: its name is taken"),
        "{err}"
    );
    assert!(err.contains("already has a pod of this name"), "{err}");
    node.assert_clean();
}

#[test]
fn nothing_to_run_is_said() {
    let Some(node) = Node::new() else { return };
    let (code, _, err) = text(&node.ask(&["run"]));
    assert!(code == Some(2) && err.contains("nothing to run"), "{err}");
    let (code, _, err) = text(&node.ask(&["run", "/no/such/path", "--node-name", "my_host"]));
    assert!(code == Some(2) && err.contains("\"my_host\" is not a valid node name"), "{err}");
    let (code, _, err) = text(&node.ask(&["run", "/no/such/path"]));
    assert!(code == Some(2) && err.contains("/no/such/path"), "{err}");
}

/// An unusable manifest is judged as it is now: its earlier version is no longer in any file, and nobody asked for it.
#[test]
fn what_a_manifest_said_before_is_not_run() {
    let Some(mut node) = Node::new() else { return };
    let old = job("job", "echo the old one", "Never");
    node.write("job.yaml", &old);
    // An agent that keeps its pods running also keeps the last good manifest.
    node.start_agent();
    node.until_phase("job", "Succeeded");
    let kept =
        || std::fs::read_dir(node.path("data/manifests")).is_ok_and(|mut folders| folders.next().is_some());
    node.until("a kept manifest", kept);
    node.end_agent("-TERM");
    let once = || text(&node.run_command().arg("--once").output().expect("it runs"));
    let (code, out, err) = once();
    assert_eq!((code, out.as_str()), (Some(0), "[job-n/c] the old one\n"), "{err}");
    let left = || std::fs::read_dir(node.path("data/manifests")).into_iter().flatten().count();
    assert_eq!(left(), 0, "nothing is kept");

    node.write("job.yaml", &old.replace("Never", "Nver").replace("old", "new"));
    let (code, out, err) = once();
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("spec.restartPolicy: Unsupported value: \"Nver\""), "{err}");
    assert_eq!(left(), 0);
}

/// The output of every attempt is printed, however soon the next one follows: the first one often says what is wrong.
#[test]
fn the_words_of_every_attempt_are_shown() {
    let Some(node) = Node::new() else { return };
    node.configure("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n");
    let script =
        "echo x >> /out/tried; n=$(grep -c x /out/tried); echo attempt $n; printf \"end of $n\"; [ $n = 4 ]";
    let volume = format!("  volumes: [{{name: out, hostPath: {{path: {}}}}}]\n", node.path("").display());
    let mounted = "    volumeMounts: [{name: out, mountPath: /out}]\n";
    node.write("job.yaml", &(job("job", script, "OnFailure") + mounted + &volume));
    let (code, out, err) = text(&node.run_command().arg("--once").output().expect("it runs"));
    let line = |text: &str, n: u32| format!("[job-n/c] {text} {n}\n");
    let wanted: String = (1..=4).map(|n| line("attempt", n) + &line("end of", n)).collect();
    assert_eq!((code, out), (Some(0), wanted), "{err}");
    node.assert_clean();
}

#[test]
fn what_cannot_be_shown_does_not_pass_for_a_success() {
    let Some(node) = Node::new() else { return };
    node.write("job.yaml", &job("job", "echo well done", "Never"));
    let once = || {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
        text(&node.run_command().arg("--once").stdout(full).output().expect("it runs"))
    };
    let (code, _, err) = once();
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("containers write: No space left on device") && err.contains("the pods keep running"),
        "{err}"
    );
    node.assert_clean();
    node.write("job.yaml", &job("job", "echo no luck; exit 3", "Never"));
    assert_eq!(once().0, Some(5), "how the pods ended comes first");
}

/// Only the agent may talk to the service manager: a container must not be able to speak for it.
#[test]
fn containers_do_not_know_the_service_manager() {
    let Some(node) = Node::new() else { return };
    node.write("job.yaml", &job("job", "env; cat /proc/1/environ; echo; echo done", "Never"));
    let socket = node.path("notify");
    let heard = std::os::unix::net::UnixDatagram::bind(&socket).expect("bound");
    let mut once = node.run_command();
    once.arg("--once").env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "60000000");
    let (code, out, err) = text(&once.output().expect("it runs"));
    assert!(code == Some(0) && out.ends_with("done\n"), "{out}{err}");
    assert!(!out.contains("NOTIFY_SOCKET") && !out.contains("WATCHDOG"), "{out}");
    let mut news = [0; 64];
    let length = heard.recv(&mut news).expect("heard");
    assert_eq!(&news[..length], b"READY=1");
}

/// This pod never starts, however long one waits.
#[test]
fn what_has_not_ended_in_time_is_named_and_taken_down() {
    let Some(node) = Node::new() else { return };
    let image = "imagePullPolicy: IfNotPresent";
    node.write(
        "late.yaml",
        &job("late", "true", "Never")
            .replace(image, "imagePullPolicy: Never")
            .replace("image: host", "image: no-such:1"),
    );
    let (code, _, err) =
        text(&node.run_command().args(["--once", "--timeout", "1s"]).output().expect("it runs"));
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("default/late-n has not ended within 1s: "), "{err}");
    node.assert_clean();
    let (code, _, err) = text(&node.run_command().args(["--timeout", "1s"]).output().expect("it runs"));
    assert!(code == Some(2) && err.contains("--once"), "{err}");
}
