//! Malicious manifests, and containers that tamper with their volumes: they are refused by name, cost little memory,
//! and nothing is written outside the volumes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::node::{Node, restarts, state, text};

/// In MiB: about twice what was measured, and a tenth of what these manifests would need if they were taken literally.
const MOST_MEMORY: u64 = 200;

fn pod(name: &str, meta: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{meta}spec:\n  hostNetwork: true\n  containers:\n  \
         - name: c\n    image: host\n    imagePullPolicy: IfNotPresent\n    command: [sleep, '1000']\n{container}"
    )
}

fn many(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

fn anchors() -> String {
    let first = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    (1..30).fold(first, |text, n| {
        text + &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))
    })
}

/// Manifests, each with the error that it should cause.
fn manifests() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let containers =
        |count| many(count, |n| format!("  - {{name: d{n}, image: host, command: [sleep, '1000']}}\n"));
    let annotation = format!("  annotations:\n    a: {}\n", "x".repeat((10 << 20) - 1000));
    let annotations = many(9000, |n| format!("    k{n}: {}\n", "y".repeat(1000)));
    let texts = [
        ("containers", pod("containers", "", &containers(10_000)), "spec.containers: has 10001 items"),
        ("annotation", pod("annotation", &annotation, ""), "metadata.annotations: Too long"),
        (
            "annotations",
            pod("annotations", &format!("  annotations:\n{annotations}"), ""),
            "metadata.annotations: Too long",
        ),
        (
            "empty",
            pod("empty", "", &many(90_000, |_| "  - {}\n".to_owned())),
            "spec.containers: has 90001 items",
        ),
        ("deep", format!("a: {}", "[".repeat(5_000_000)), "recursion limit exceeded"),
        ("nested", "- ".repeat(1_000_000), "is nested deeper than 32 levels"),
        ("anchors", anchors(), "has too many or too large anchors and aliases"),
        ("documents", pod("d", "", "---\n").repeat(3000), "has more than 1024 documents"),
        ("keys", many(100_000, |n| format!("k{n}: 1\n")), "has more than 100000 values"),
        ("open", format!("a: \"{}", "\\u0041".repeat(1_700_000)), "unclosed quote"),
        ("name", pod("'../../up'", "", ""), "metadata.name: Invalid value"),
        ("namespace", pod("namespace", "  namespace: '../up'\n", ""), "metadata.namespace: Invalid value"),
        ("uid", pod("uid", "  uid: '../../up'\n", ""), "metadata.uid: Invalid value"),
    ];
    let bytes = [
        ("zeros", vec![0; 5 << 20], "unexpected character"),
        ("latin", b"a: \xe4\n".to_vec(), "is not UTF-8 text"),
    ];
    texts.map(|(name, text, said)| (name, text.into_bytes(), said)).into_iter().chain(bytes).collect()
}

fn make(command: &str, args: &[&str], path: &Path) {
    assert!(Command::new(command).args(args).arg(path).status().expect("it runs").success(), "{command}");
}

#[test]
fn hostile_manifests_are_refused_in_little_memory_and_harm_nobody() {
    let Some(mut node) = Node::new() else { return };
    let url = endless_server();
    node.start_agent_with(&["--manifest-url", &url]);
    node.write("web.yaml", &node.sleeping("web", 1));
    node.until_phase("web", "Running");
    let pid = node.sleeper(1);

    let manifests = manifests();
    for (name, bytes, _) in &manifests {
        fs::write(node.path("pods").join(format!("{name}.yaml")), bytes).expect("writable");
    }
    let special = |name: &str| node.path("pods").join(name);
    make("mkfifo", &[], &special("fifo.yaml"));
    make("truncate", &["-s", "1T"], &special("sparse.yaml"));
    std::os::unix::fs::symlink("/dev/zero", special("device.yaml")).expect("a link");
    std::os::unix::fs::symlink("loop.yaml", special("loop.yaml")).expect("a link");

    let said = |name: &str, what: &str| {
        let said = node.said();
        said.lines().any(|line| line.contains(&format!("/{name}.yaml")) && line.contains(what))
    };
    for (name, _, what) in &manifests {
        node.until(&format!("{name}: {what}"), || said(name, what));
    }
    for (name, what) in [
        ("fifo", "is neither a regular file nor a folder"),
        ("device", "is neither a regular file nor a folder"),
        ("sparse", "is larger than 10 MiB"),
        ("loop", "cannot be read"),
    ] {
        node.until(&format!("{name}: {what}"), || said(name, what));
    }
    node.until("the endless answer", || node.said().contains("/pods: is larger than 10 MiB"));

    // The agent still works.
    node.write("db.yaml", &node.sleeping("db", 2));
    node.until_phase("db", "Running");
    assert_eq!((restarts(&node.until_phase("web", "Running")), node.sleepers(1)), (0, vec![pid]));
    let peak = node.peak_memory();
    println!("peak memory: {peak} MiB");
    assert!(peak <= MOST_MEMORY, "{peak} MiB");
    assert!(!node.path("up").exists() && !node.path("data/up").exists() && !node.path("logs/up").exists());
}

/// Starts a server whose answers never end.
fn endless_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/pods", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut question = [0; 1024];
            let _ = client.read(&mut question);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while client.write_all(&[b'#'; 64 << 10]).is_ok() {}
        }
    });
    url
}

#[test]
fn variables_that_double_each_other_are_refused_by_name() {
    let Some(node) = Node::start() else { return };
    let bomb = many(500, |n| format!("    - {{name: V{}, value: '$(V{n})$(V{n})'}}\n", n + 1));
    node.write(
        "bomb.yaml",
        &pod("bomb", "", &format!("    env:\n    - {{name: V0, value: 0123456789abcdef}}\n{bomb}")),
    );
    let waits = node.until_waiting("bomb", "CreateContainerConfigError");
    let message = state(&waits)["waiting"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("variable V13 is longer than 128 KiB"), "{message}");
    assert!(node.peak_memory() <= MOST_MEMORY);
}

#[test]
fn links_in_volumes_lead_nowhere() {
    let Some(node) = Node::start() else { return };
    let outside = node.path("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("kept"), "kept").expect("a file");
    let out = outside.display();
    let volumes = "  volumes: [{name: v, emptyDir: {}}]\n";
    let init = |script: &str| {
        format!(
            "  initContainers:\n  - name: i\n    image: host\n    imagePullPolicy: IfNotPresent\n    command: [sh, -c, '{script}']\n    \
             volumeMounts: [{{name: v, mountPath: /v}}]\n"
        )
    };
    // The link exists before the container is created.
    for (name, script, path) in [
        ("link", format!("ln -s {out} /v/out"), "out"),
        ("below", format!("ln -s {out} /v/out"), "out/made"),
        ("up", "ln -s ../../../.. /v/out".to_owned(), "out/outside"),
        ("magic", "ln -s /proc/1/root /v/out".to_owned(), "out/tmp"),
    ] {
        let mount = format!("    volumeMounts: [{{name: v, mountPath: /w, subPath: {path}}}]\n");
        let manifest = pod(name, "", &mount) + &init(&script) + volumes;
        node.write(&format!("{name}.yaml"), &manifest);
    }
    // A container replaces its own `subPath` folder by a link, and is then restarted.
    let script = format!("rm -rf /v/data; ln -s {out} /v/data; exit 1");
    let container = "    volumeMounts: [{name: v, mountPath: /w, subPath: data}]\n  - name: evil\n    image: host\n    imagePullPolicy: IfNotPresent\n";
    let evil = format!(
        "    command: [sh, -c, '{script}']\n    volumeMounts: [{{name: v, mountPath: /v}}, {{name: v, mountPath: /w, subPath: data}}]\n"
    );
    node.write("exchange.yaml", &(pod("exchange", "", container) + &evil + volumes));

    for name in ["link", "below", "up", "magic"] {
        let waits = node.until_waiting(name, "CreateContainerConfigError");
        let message = state(&waits)["waiting"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("leads out of the volume"), "{name}: {message}");
    }
    node.until_pod("exchange", "refused", |pod| {
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        statuses.iter().any(|status| {
            status["name"] == "evil" && status["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        })
    });
    for name in ["link", "below", "up", "magic", "exchange"] {
        node.remove(&format!("{name}.yaml"));
        node.until_gone(name);
    }
    let left: Vec<_> =
        fs::read_dir(&outside).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["kept"], "nothing was made there and nothing deleted");
    let (code, out, err) = text(&node.ask(&["ps"]));
    assert_eq!(code, Some(0), "{out}{err}");
}
