//! Everything that people do with crictl, in the usual order.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rubelet_testbed::requirement::{check_go_tool, is_met};
use rubelet_testbed::{Embedded, go_cache, wait};
use serde_json::{Value, json};

use crate::program;

const LIMIT: Duration = Duration::from_secs(30);

struct Crictl<'a> {
    runtime: &'a Embedded,
}

impl Crictl<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(go_cache::crictl().expect("is built"));
        let endpoint = format!("unix://{}", self.runtime.socket().display());
        let config = self.runtime.dir().join("crictl.yaml");
        std::fs::write(&config, "timeout: 60\n").expect("a file");
        command.arg("--config").arg(config).args(["-r", &endpoint, "-i", &endpoint]).args(args);
        command
    }

    /// Returns the standard output and standard error of a command, which must succeed.
    fn both(&self, args: &[&str]) -> (String, String) {
        let done = self.command(args).output().expect("crictl runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        assert!(done.status.success(), "crictl {args:?}: {out}{err}");
        (out, err)
    }

    fn run(&self, args: &[&str]) -> String {
        self.both(args).0
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(args)).expect("JSON")
    }

    /// Returns the one line of a table that begins with an id, as words.
    fn row(&self, args: &[&str], id: &str) -> Vec<String> {
        let table = self.run(args);
        let row = table.lines().find(|line| line.starts_with(&id[..13]));
        let row = row.unwrap_or_else(|| panic!("{id} is not in\n{table}"));
        row.split_whitespace().map(str::to_owned).collect()
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.runtime.dir().join(name);
        std::fs::write(&path, content.to_string()).expect("a file");
        path.to_string_lossy().into_owned()
    }
}

fn pod(runtime: &Embedded) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "u-1", "attempt": 3 },
        "hostname": "web",
        "log_directory": runtime.dir().join("logs"),
        "labels": { "app": "web" },
        "linux": {
            "cgroup_parent": format!("{}/pod", runtime.cgroup()),
            "security_context": { "namespace_options": { "network": 0, "pid": 1 } },
        },
    })
}

fn container() -> Value {
    json!({
        "metadata": { "name": "main", "attempt": 1 },
        "image": { "image": "host" },
        "command": ["/bin/sh", "-c", "echo to out; echo to err >&2; hostname; trap 'exit 7' TERM; while :; do sleep 0.02; done"],
        "log_path": "main.log",
        // These are the labels that a kubelet sets: crictl gets the pod of a container from them.
        "labels": { "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default" },
        "linux": {
            "resources": { "memory_limit_in_bytes": 64 << 20 },
            "security_context": { "namespace_options": { "network": 0, "pid": 1 } },
        },
    })
}

/// A running `crictl events`, which ends with the test.
struct Events(Child);

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn crictl_does_all_it_can_do() {
    if !is_met("crictl", &check_go_tool(&go_cache::CRICTL)) {
        return;
    }
    let Some(runtime) = program::start("crictl") else { return };
    let crictl = Crictl { runtime: &runtime };

    let version = crictl.run(&["version"]);
    assert!(
        version.contains("RuntimeName:  rubelet") && version.contains("RuntimeApiVersion:  v1"),
        "{version}"
    );
    let info = crictl.json(&["info"]);
    let conditions = info["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().all(|condition| condition["status"] == true), "{conditions:?}");
    assert!(crictl.run(&["images"]).contains("host"));
    assert_eq!(crictl.json(&["inspecti", "host"])["status"]["pinned"], true);
    assert!(crictl.run(&["imagefsinfo"]).contains("imageFilesystems"));

    let events =
        crictl.command(&["events", "--output", "json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut events = Events(events.expect("crictl runs"));
    let told = events.0.stdout.take().expect("a pipe");
    // It does not say when it is listening, so events are caused until it prints one.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(told).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let noise = crictl.file("noise.json", &json!({ "metadata": { "name": "n", "namespace": "n", "uid": "n" },
        "linux": { "security_context": { "namespace_options": { "network": 2 } }, "cgroup_parent": runtime.cgroup() } }));
    wait::until(LIMIT, || {
        let id = crictl.run(&["runp", &noise]);
        crictl.run(&["rmp", "-f", id.trim()]);
        receiver.try_recv().ok()
    })
    .expect("crictl hears events");

    let (pod_file, container_file) =
        (crictl.file("pod.json", &pod(&runtime)), crictl.file("c.json", &container()));
    let pod = crictl.run(&["runp", &pod_file]).trim().to_owned();
    let id = crictl.run(&["create", &pod, &container_file, &pod_file]).trim().to_owned();
    assert!(crictl.row(&["ps", "-a"], &id).contains(&"Created".to_owned()));
    assert_eq!(crictl.run(&["start", &id]).trim(), id);
    let row = crictl.row(&["ps"], &id);
    assert_eq!(row[row.len() - 5..], ["main", "1", &pod[..13], "web", "default"], "{row:?}");
    assert!(
        row.contains(&"Running".to_owned())
            && row.contains(&"second".to_owned()) | row.contains(&"seconds".to_owned())
    );
    let row = crictl.row(&["pods"], &pod);
    assert_eq!(row[row.len() - 5..], ["Ready", "web", "default", "3", "(default)"], "{row:?}");
    assert_eq!(crictl.run(&["pods", "-q", "--label", "app=web"]).trim(), pod);
    assert_eq!(crictl.run(&["pods", "-q", "--label", "app=other"]).trim(), "");

    // The container writes its log, and may not have written everything yet.
    let logs =
        wait::until(LIMIT, || Some(crictl.both(&["logs", &id])).filter(|logs| logs.0.contains("web\n")));
    assert_eq!(logs.expect("its log"), ("to out\nweb\n".to_owned(), "to err\n".to_owned()));
    assert_eq!(crictl.run(&["exec", "-s", &id, "echo", "inside"]).trim(), "inside");
    let failed = crictl.command(&["exec", "-s", &id, "sh", "-c", "exit 3"]).output().expect("crictl runs");
    assert!(
        !failed.status.success() && String::from_utf8_lossy(&failed.stderr).contains("exited with 3"),
        "{failed:?}"
    );

    let inspected = crictl.json(&["inspect", &id]);
    assert_eq!(inspected["status"]["state"], "CONTAINER_RUNNING");
    assert_eq!(inspected["status"]["resources"]["linux"]["memoryLimitInBytes"], (64 << 20).to_string());
    assert_eq!(inspected["status"]["stopSignal"], "SIGTERM");
    assert!(inspected["info"]["pid"].as_i64().expect("a pid") > 1);
    let sandbox = crictl.json(&["inspectp", &pod]);
    assert_eq!(sandbox["status"]["state"], "SANDBOX_READY");
    assert_eq!(sandbox["info"]["id"], pod.as_str());

    let stats = crictl.json(&["stats", "-o", "json", &id]);
    let used = &stats["stats"][0]["memory"]["workingSetBytes"]["value"];
    assert!(
        used.as_str().and_then(|text| text.parse::<u64>().ok()).is_some_and(|bytes| bytes > 0),
        "{stats}"
    );
    assert_eq!(crictl.json(&["statsp", "-o", "json"])["stats"][0]["attributes"]["id"], pod.as_str());
    crictl.run(&["update", "--memory", &(32 << 20).to_string(), &id]);
    let limit = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true";
    assert_eq!(crictl.run(&["exec", "-s", &id, "sh", "-c", limit]).trim(), (32 << 20).to_string());

    crictl.run(&["stop", "--timeout", "30", &id]);
    let status = crictl.json(&["inspect", &id])["status"].clone();
    assert_eq!((&status["state"], &status["exitCode"]), (&json!("CONTAINER_EXITED"), &json!(7)));
    assert_eq!(status["reason"], "Error");
    crictl.run(&["rm", &id]);
    crictl.run(&["stopp", &pod]);
    assert!(crictl.row(&["pods"], &pod).contains(&"NotReady".to_owned()));
    crictl.run(&["rmp", &pod]);
    assert_eq!((crictl.run(&["pods", "-q"]), crictl.run(&["ps", "-aq"])), (String::new(), String::new()));

    // Each event takes many lines; those with an id and a kind are enough.
    let mut kinds = Vec::new();
    let mut last_id = String::new();
    while let Ok(line) = receiver.recv_timeout(LIMIT) {
        let value = |key: &str| {
            line.trim().strip_prefix(key).map(|rest| rest.trim_matches(['"', ' ', ',', ':']).to_owned())
        };
        if let Some(id) = value("\"containerId\"") {
            last_id = id;
        }
        if let Some(kind) = value("\"containerEventType\"").filter(|_| last_id == id || last_id == pod) {
            kinds.push((
                if last_id == pod { "pod" } else { "container" },
                kind.replace("CONTAINER_", "").replace("_EVENT", ""),
            ));
            if kinds.last() == Some(&("pod", "DELETED".to_owned())) {
                break;
            }
        }
    }
    let kinds: Vec<(&str, &str)> = kinds.iter().map(|(whose, kind)| (*whose, kind.as_str())).collect();
    assert_eq!(
        kinds,
        [
            ("pod", "CREATED"),
            ("pod", "STARTED"),
            ("container", "CREATED"),
            ("container", "STARTED"),
            ("container", "STOPPED"),
            ("container", "DELETED"),
            ("pod", "STOPPED"),
            ("pod", "DELETED"),
        ]
    );
    assert!(runtime.mounts().is_empty() && runtime.shims().is_empty());
}
