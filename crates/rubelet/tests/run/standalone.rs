//! On the embedded runtime as a program of its own, without CNI: its pods have loopback only, but are left alone.

use std::process::Command;

use rubelet_testbed::Embedded;

use crate::node::{Node, restarts, text};

#[test]
fn a_pod_without_a_network_runs_to_its_end() {
    let started = Embedded::start("agent", |place| {
        let mut runtime = Command::new(env!("CARGO_BIN_EXE_rubelet"));
        runtime.arg("runtime").arg("--socket").arg(place.socket()).arg("--data-dir").arg(place.data());
        runtime
    });
    let Some(runtime) = started else { return };
    let Some(node) = Node::start_on(format!("unix://{}", runtime.socket().display())) else { return };
    // If the sandbox were replaced, the container would go with it and start again.
    let script = "touch /shared/first; until [ -e /shared/second ]; do sleep 0.1; done";
    let shared = node.path("shared");
    std::fs::create_dir(&shared).expect("a folder");
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: quiet\nspec:\n  restartPolicy: OnFailure\n  containers:\n  - name: c\n    \
         image: host\n    imagePullPolicy: IfNotPresent\n    command: [sh, -c, '{script}']\n    \
         volumeMounts: [{{name: shared, mountPath: /shared}}]\n  volumes: [{{name: shared, hostPath: {{path: {}}}}}]\n",
        shared.display()
    );
    node.write("quiet.yaml", &manifest);
    let running = node.until_phase("quiet", "Running");
    assert_eq!(running["status"]["podIP"].as_str(), None, "{running:#?}");
    node.until("the first file", || shared.join("first").exists());
    std::fs::write(shared.join("second"), "").expect("written");
    let ended = node.until_phase("quiet", "Succeeded");
    assert_eq!(restarts(&ended), 0, "{ended:#?}");
    let (_, events, _) = text(&node.ask(&["events", "quiet-n"]));
    assert!(events.contains("Started") && !events.contains("SandboxChanged"), "{events}");
    node.end_pods();
}
