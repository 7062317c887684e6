//! Pods start, change and end with their manifests, and survive failures.

use std::net::TcpStream;
use std::path::PathBuf;

use crate::node::{NODE, Node, copy_files, restarts, signal_to, text};

#[test]
fn a_pod_follows_its_manifest_and_leaves_nothing_behind() {
    let Some(node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    let first = node.until_phase("web", "Running");
    signal_to(node.sleeper(1), "-9");
    let restarted = node.until_pod("web", "restarted", |pod| restarts(pod) == 1);
    let last = &restarted["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(last["exitCode"], 137, "{last}");

    node.write("web.yaml", &node.sleeping("web", 2));
    node.sleeper(2);
    let second = node.until_pod("web", "replaced", |pod| pod["metadata"]["uid"] != first["metadata"]["uid"]);
    assert_eq!(restarts(&second), 0);
    assert!(node.sleepers(1).is_empty());

    node.remove("web.yaml");
    node.until_gone("web");
    assert!(node.sleepers(2).is_empty());
    node.assert_clean();
}

#[test]
fn a_broken_manifest_is_explained_and_hurts_nobody() {
    let Some(node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    let pid = node.sleeper(1);
    node.write(
        "web.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers: nonsense\n",
    );
    node.until("the explanation", || node.said().contains("web.yaml") && node.said().contains("containers"));
    node.write("db.yaml", &node.sleeping("db", 2));
    node.until_phase("db", "Running");
    assert_eq!(node.sleepers(1), [pid], "what runs goes on");
}

#[test]
fn an_agent_that_ends_or_dies_leaves_its_pods_running_and_adopts_them_again() {
    let Some(mut node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    let pid = node.sleeper(1);

    assert_eq!(node.end_agent("-INT"), Some(0));
    assert!(
        node.said().contains("1 pod keeps running") && node.said().contains("rubelet stop --all"),
        "{}",
        node.said()
    );
    assert_eq!(node.sleepers(1), [pid]);
    node.start_agent();
    node.until_phase("web", "Running");

    node.end_agent("-KILL");
    node.start_agent();
    let adopted = node.until_phase("web", "Running");
    assert_eq!((restarts(&adopted), node.sleepers(1)), (0, vec![pid]));

    node.end_agent("-KILL");
    node.remove("web.yaml");
    node.start_agent();
    node.until("end of what nobody wants any more", || node.sleepers(1).is_empty());
    node.until_gone("web");
    node.until("a clean node", || {
        !node.path("data/pods").read_dir().is_ok_and(|mut left| left.next().is_some())
    });
    node.assert_clean();
}

#[test]
fn pods_are_looked_at_and_ended_with_and_without_an_agent() {
    let Some(mut node) = Node::start() else { return };
    let talking = node
        .sleeping("web", 1)
        .replace("command: [sleep, ", "command: [sh, -c, 'echo hello; echo oops >&2; exec sleep \"$0\"', ");
    node.write("web.yaml", &talking);
    node.write("db.yaml", &node.sleeping("db", 2));
    let saying = |word: &str| format!("command: [sh, -c, 'echo {word}; exec sleep \"$0\"', ");
    let first = node.sleeping("two", 3).replace("command: [sleep, ", &saying("first"));
    let (head, container) = first.split_at(first.find("  - name: c").expect("a container"));
    let second = container.replace("name: c", "name: a").replace("first", "second");
    node.write("two.yaml", &format!("{head}{container}{second}"));
    for name in ["web", "db", "two"] {
        node.until_phase(name, "Running");
    }
    node.sleeper(1);

    let name = format!("web-{NODE}");
    let (code, out, err) = text(&node.ask(&["logs", &name]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "hello\n", "oops\n"));
    let (code, out, _) = text(&node.ask(&["exec", &name, "--", "sh", "-c", "echo inside; exit 7"]));
    assert_eq!((code, out.as_str()), (Some(7), "inside\n"));
    for (stdout, stderr, is_cut) in [(15, 0, false), (8, 7, false), (17, 0, true), (9, 9, true)] {
        let script = format!("head -c {stdout}M /dev/zero; head -c {stderr}M /dev/zero >&2");
        let (code, out, err) = text(&node.ask(&["exec", &name, "--", "sh", "-c", &script]));
        assert_eq!(
            (code, err.contains("the output was cut")),
            (Some(i32::from(is_cut)), is_cut),
            "{stdout} {stderr}"
        );
        assert!(out.len() >= stdout.min(15) << 20, "what there is of it is shown: {}", out.len());
    }
    let (code, _, err) = text(&node.ask(&["exec", &name, "-c", "d", "--", "true"]));
    assert!(code == Some(2) && err.contains("the pod has no container d; it has c"), "{err}");
    for command in ["logs", "describe", "stop"] {
        let (code, _, err) = text(&node.ask(&[command, &name, "-n", "other"]));
        assert!(code == Some(2) && err.contains("no pod web-n"), "{command}: {err}");
    }
    for name in [name.as_str(), "web"] {
        let (code, out, err) = text(&node.ask(&["describe", name]));
        assert!(code == Some(0) && out.contains("Container started"), "{name}: {out}{err}");
    }
    let (code, _, err) = text(&node.ask(&["describe", "nobody"]));
    assert!(code == Some(2) && err.contains("no pod nobody"), "{err}");

    let (code, out, err) = text(&node.ask(&["stop", &name, "--grace-period", "1"]));
    assert_eq!((code, out.trim_end()), (Some(0), "default/web-n stopped"), "{err}");
    assert!(node.sleepers(1).is_empty() && node.sleepers(2).len() == 1);

    node.until("words", || text(&node.ask(&["logs", "two", "-c", "a"])).1 == "second\n");
    assert_eq!(text(&node.ask(&["logs", "two"])).1, "first\n", "the first in the manifest");
    node.end_agent("-INT");
    let (code, out, err) = text(&node.ask(&["logs", "two"]));
    assert_eq!((code, out.as_str()), (Some(0), "first\n"), "the same as with an agent: {err}");
    let (code, out, _) = text(&node.ask(&["ps"]));
    assert!(code == Some(0) && out.contains("db-n"), "{out}");
    let (code, _, err) = text(&node.ask(&["stop", "--all", "--grace-period", "0"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(node.sleepers(2).is_empty());
    let (_, out, err) = text(&node.ask(&["ps", "-A"]));
    assert_eq!((out.as_str(), err.trim_end()), ("", "no pods"));
    node.assert_clean();
    assert_eq!(node.pod_groups(), Vec::<PathBuf>::new());
}

#[test]
fn every_example_runs() {
    let Some(node) = Node::start() else { return };
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pods");
    copy_files(&examples, &node.path("pods"));
    node.until_phase("job", "Succeeded");
    for name in ["web", "init-and-sidecar", "settings"] {
        node.until_phase(name, "Running");
    }
    node.until_waiting("crash-loop", "CrashLoopBackOff");
    let (_, out, _) = text(&node.ask(&["logs", &format!("settings-{NODE}")]));
    assert_eq!(out, "good morning, in green; the password has 13 characters\n");
    let (_, out, _) = text(&node.ask(&["logs", &format!("job-{NODE}")]));
    assert_eq!(out, "1\n2\n3\n");
}

/// Sends a request to the agent's socket, and returns the first line and the body of the answer.
fn get(node: &Node, path: &str) -> (String, String) {
    ask(std::os::unix::net::UnixStream::connect(node.path("data/agent.sock")).expect("it listens"), path)
}

fn ask(mut stream: impl std::io::Read + std::io::Write, path: &str) -> (String, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[test]
fn health_metrics_and_pods_can_be_asked_for() {
    let Some(node) = Node::start() else { return };
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(get(&node, path), ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned()), "{path}");
    }
    assert!(get(&node, "/readyz?verbose").1.contains("[+]sources ok\n"));
    let (_, metrics) = get(&node, "/metrics");
    assert!(
        metrics.contains("kubelet_started_containers_total{container_type=\"container\"} 1"),
        "{metrics}"
    );
    let (_, pods) = get(&node, "/pods");
    assert!(pods.contains("\"kind\":\"PodList\"") && pods.contains("\"phase\":\"Running\""), "{pods}");
    assert!(get(&node, "/debug/pleg").1.contains("\"healthy\":true"));
}

#[test]
fn commands_are_answered_while_a_hook_takes_as_long_as_it_likes() {
    let Some(node) = Node::start() else { return };
    let hook =
        format!("    lifecycle: {{postStart: {{exec: {{command: [sleep, \"{}\"]}}}}}}\n", node.seconds(2));
    node.write("web.yaml", &(node.sleeping("web", 1) + &hook));
    node.sleeper(2);
    node.until("a call that is told", || get(&node, "/report").1.contains("\"call\":\"exec_sync\""));
    for command in [&["ps"][..], &["describe", "web"], &["logs", "web"], &["exec", "web", "--", "true"]] {
        let (code, _, err) = text(&node.ask(command));
        assert_eq!(code, Some(0), "{command:?}: {err}");
    }
    signal_to(node.sleeper(2), "-TERM");
}

/// Over TCP, which is open to everybody, the requests that only the owner of the folder may make do not exist.
#[test]
fn everybody_may_look_over_tcp_and_nobody_may_change_anything() {
    let Some(mut node) = Node::new() else { return };
    node.listen_on("127.0.0.1:0");
    node.start_agent();
    node.until("its address", || node.said().contains("/pods; Ctrl-C"));
    let said = node.said();
    let address =
        said.split_once("http://").and_then(|(_, rest)| rest.split_once("/pods")).expect("an address").0;
    let get = |path: &str| ask(TcpStream::connect(address).expect("it listens"), path);
    node.until("readiness", || get("/readyz").1 == "ok");
    for path in ["/livez", "/healthz", "/metrics", "/pods", "/debug/pleg"] {
        assert_eq!(get(path).0, "HTTP/1.1 200 OK", "{path}");
    }
    for path in ["/about", "/views", "/report", "/stop"] {
        assert_eq!(get(path).0, "HTTP/1.1 404 Not Found", "{path}");
    }
}
