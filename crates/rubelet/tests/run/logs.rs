//! `rubelet logs -f`: output appears as it is written, and following ends when nothing more can come.

use std::fs;
use std::process::{Child, Stdio};

use rubelet_testbed::wait;

use crate::node::{Node, PATIENCE, text};

/// A pod whose container prints `one`, waits for a file, prints `two` without a line end, and exits with this code.
fn waits_for_a_file(node: &Node, name: &str, policy: &str, code: u32) -> String {
    let shared = node.path(name);
    fs::create_dir(&shared).expect("a folder");
    let script =
        format!("echo one; until [ -e /shared/go ]; do sleep 0.1; done; printf \"tw\\\\377o\"; exit {code}");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  hostNetwork: true\n  restartPolicy: {policy}\n  \
         terminationGracePeriodSeconds: 1\n  containers:\n  - name: c\n    image: host\n    imagePullPolicy: IfNotPresent\n    \
         command: [sh, -c, '{script}']\n    volumeMounts: [{{name: shared, mountPath: /shared}}]\n  \
         volumes: [{{name: shared, hostPath: {{path: {}}}}}]\n",
        shared.display()
    )
}

/// A process that follows a log, with its output in a file.
struct Reader {
    process: Child,
    shown: std::path::PathBuf,
}

impl Reader {
    fn of(node: &Node, pod: &str) -> Self {
        let shown = node.path(&format!("{pod}.shown"));
        let file = fs::File::create(&shown).expect("a file");
        let process = node
            .command("logs")
            .args(["-f", pod])
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { process, shown }
    }

    fn shown(&self) -> Vec<u8> {
        fs::read(&self.shown).expect("a file")
    }

    /// Returns its exit code, once it has ended by itself.
    fn ended(&mut self) -> Option<i32> {
        wait::until(PATIENCE, || self.process.try_wait().expect("it is ours"))?.code()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An agent that has not read all of its sources still knows that it has replaced a pod.
#[test]
fn following_ends_when_the_pod_was_replaced_though_a_source_is_silent() {
    let Some(mut node) = Node::new() else { return };
    node.start_agent_with(&["--manifest-url", "http://127.0.0.1:1/none"]);
    let first = waits_for_a_file(&node, "web", "Always", 0);
    node.write("web.yaml", &first);
    node.until_phase("web", "Running");
    let mut reader = Reader::of(&node, "web-n");
    node.until("the first line", || reader.shown() == b"one\n");
    node.write("web.yaml", &first.replace("echo one", "echo other"));
    assert_eq!(reader.ended(), Some(0), "{}", node.said());
}

#[test]
fn following_ends_when_the_container_is_done_or_its_pod_is_gone() {
    let Some(node) = Node::start() else { return };
    node.write("job.yaml", &waits_for_a_file(&node, "job", "OnFailure", 0));
    node.write("web.yaml", &waits_for_a_file(&node, "web", "Always", 1));
    let mut readers = ["job", "web"].map(|name| {
        node.until_phase(name, "Running");
        Reader::of(&node, &format!("{name}-n"))
    });
    for reader in &readers {
        node.until("the first line", || reader.shown() == b"one\n");
    }
    for name in ["job", "web"] {
        fs::write(node.path(name).join("go"), "").expect("written");
    }
    let [job, web] = &mut readers;
    assert_eq!(job.ended(), Some(0), "{}", node.said());
    assert_eq!(job.shown(), b"one\ntw\xffo");

    // This container is restarted, and its next log is followed.
    node.until("a second life", || web.shown().starts_with(b"one\ntw\xffo\none\ntw\xffo"));
    assert_eq!(web.process.try_wait().expect("it is ours"), None);
    node.remove("web.yaml");
    assert_eq!(web.ended(), Some(0), "{}", node.said());

    // A late reader gets the log of the last instance, to its end.
    let (code, out, err) = text(&node.ask(&["logs", "-f", "--tail", "1", "job-n"]));
    assert_eq!((code, out.as_str()), (Some(0), "tw\u{fffd}o"), "{err}");
}
