//! What remains of a pod that has ended: its status and its logs, and nothing that uses memory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::node::{Node, text};

/// Returns the folders below `root` whose names contain `part`.
fn folders(root: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().contains(part) {
            found.push(entry.path());
        }
        found.extend(folders(&entry.path(), part));
    }
    found
}

#[test]
fn a_pod_that_has_ended_gives_back_memory_and_its_control_group() {
    let Some(node) = Node::start() else { return };
    let uid = "22222222-3333-4444-5555-666666666666";
    let shared = node.path("shared");
    fs::create_dir(&shared).expect("a folder");
    let manifest = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData: {{key: hush}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: job, uid: {uid}}}\nspec:\n  hostNetwork: true\n  restartPolicy: Never\n  \
         containers:\n  - name: c\n    image: host\n    imagePullPolicy: IfNotPresent\n    \
         command: [sh, -c, 'cat /key/key; echo much > /memory/x; until [ -e /shared/go ]; do sleep 0.1; done']\n    \
         volumeMounts: [{{name: memory, mountPath: /memory}}, {{name: key, mountPath: /key}}, {{name: shared, mountPath: /shared}}]\n  \
         volumes: [{{name: memory, emptyDir: {{medium: Memory}}}}, {{name: key, secret: {{secretName: key}}}}, \
         {{name: shared, hostPath: {{path: {}}}}}]\n",
        shared.display()
    );
    node.write("job.yaml", &manifest);
    node.until_phase("job", "Running");
    let mounts = || {
        let table = fs::read_to_string("/proc/self/mounts").expect("a table");
        table.lines().filter(|line| line.contains(&format!("/pods/{uid}/"))).count()
    };
    // The node's groups in every cgroup hierarchy.
    let groups = || {
        let root = node.cgroup_root();
        let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let roots = hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]);
        roots.flat_map(|at| folders(&at.join(root.trim_start_matches('/')), uid)).collect::<Vec<_>>()
    };
    assert_eq!(mounts(), 2);
    let had_groups = !groups().is_empty();
    fs::write(shared.join("go"), "").expect("written");
    node.until_phase("job", "Succeeded");
    node.until("the end of its mounts", || mounts() == 0);
    node.until("the end of its groups", || groups().is_empty());
    assert!(had_groups, "there was nothing to give back");
    let pod = node.path("data/pods").join(uid);
    assert!(pod.join("status.json").exists() && !pod.join("volumes").exists());
    let (code, out, err) = text(&node.ask(&["logs", "job-n"]));
    assert_eq!((code, out.as_str()), (Some(0), "hush"), "{err}");
    node.remove("job.yaml");
    node.until_gone("job");
    assert!(!pod.exists() && shared.join("go").exists());
}
