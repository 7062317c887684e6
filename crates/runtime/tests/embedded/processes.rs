//! Containers that share a process namespace.

use rubelet_cri::v1;

use crate::cri::Cri;
use crate::with_runtime;

/// As it was, with one process namespace for the pod.
pub(crate) fn shared(
    mut pod: v1::PodSandboxConfig,
    mut container: v1::ContainerConfig,
) -> (v1::PodSandboxConfig, v1::ContainerConfig) {
    let of_pod = pod.linux.get_or_insert_default().security_context.get_or_insert_default();
    let of_container = container.linux.get_or_insert_default().security_context.get_or_insert_default();
    for options in [&mut of_pod.namespace_options, &mut of_container.namespace_options] {
        options.get_or_insert_default().pid = v1::NamespaceMode::Pod as i32;
    }
    (pod, container)
}

async fn start_one(cri: &Cri, pod: &str, sandbox: &v1::PodSandboxConfig, script: &str) -> String {
    let (sandbox, config) = shared(sandbox.clone(), cri.container_config(script));
    let id = cri.create(pod, &sandbox, &config).await.expect("a container");
    cri.start(&id).await.expect("starts");
    id
}

/// Whatever numbers its processes have among the pod's, and whether or not the host has such processes, too.
#[test]
fn many_containers_start_in_one_process_namespace() {
    with_runtime("many", None, async |runtime, cri| {
        let (sandbox, _) = shared(cri.pod_config(), v1::ContainerConfig::default());
        let pod = cri.run_pod(&sandbox).await.expect("a pod");
        for _ in 0..30 {
            let script = "for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (:); done";
            start_one(&cri, &pod, &sandbox, script).await;
        }
        // With one hierarchy or with many, its own groups are there, and not to be written.
        let script = "cd /sys/fs/cgroup; cd pids 2>/dev/null; grep -qx $$ cgroup.procs && echo own; \
                      echo $$ > cgroup.procs || echo readonly";
        let id = start_one(&cri, &pod, &sandbox, script).await;
        let status = cri.exited(&id).await;
        let lines = cri.log(&status).await;
        let said = |word: &str| lines.iter().any(|line| line.ends_with(&format!("stdout F {word}")));
        assert!(said("own") && said("readonly"), "{lines:?}");
        cri.clear().await.expect("is removed");
        assert!(runtime.groups().is_empty() && runtime.mounts().is_empty());
    });
}

#[test]
fn the_first_process_of_a_shared_namespace_is_called_pause() {
    with_runtime("pause", None, async |_, cri| {
        let (sandbox, _) = shared(cri.pod_config(), v1::ContainerConfig::default());
        let pod = cri.run_pod(&sandbox).await.expect("a pod");
        let id = start_one(&cri, &pod, &sandbox, "cat /proc/1/comm; head -c 6 /proc/1/cmdline; echo").await;
        let status = cri.exited(&id).await;
        let lines = cri.log(&status).await;
        let said: Vec<&str> = lines.iter().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(said, ["pause", "/pause"]);
        cri.clear().await.expect("is removed");
    });
}
