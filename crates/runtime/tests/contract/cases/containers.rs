//! The life of a container.

use std::time::Duration;

use rubelet_cri::v1::{self, ContainerState};
use tonic::Code;

use crate::cri::Cri;

pub(crate) async fn a_container_lives_and_goes(cri: Cri) {
    let config = cri.container_config("exec sleep 3600");
    let (pod, id, _) = cri.pod_with_config(config.clone()).await;
    let created = cri.status(&id).await.expect("a status");
    assert_eq!(created.state(), ContainerState::ContainerCreated);
    assert_eq!((created.metadata, created.labels), (config.metadata, config.labels));
    assert!(created.created_at > 0);
    assert_eq!((created.started_at, created.finished_at), (0, 0));

    cri.start(&id).await.expect("starts");
    let running = cri.status(&id).await.expect("a status");
    assert_eq!(running.state(), ContainerState::ContainerRunning);
    assert!(running.started_at >= created.created_at);
    let listed = cri.containers(None).await;
    let listed = listed.iter().find(|container| container.id == id).expect("is listed");
    assert_eq!(
        (listed.state(), listed.pod_sandbox_id.as_str()),
        (ContainerState::ContainerRunning, pod.as_str())
    );

    cri.stop(&id, 0).await.expect("stops");
    let exited = cri.status(&id).await.expect("a status");
    assert_eq!(exited.state(), ContainerState::ContainerExited);
    assert!(exited.finished_at >= running.started_at);
    cri.stop(&id, 0).await.expect("stops again");

    cri.remove(&id).await.expect("is removed");
    cri.remove(&id).await.expect("is removed again");
    assert_eq!(cri.status(&id).await.unwrap_err().code(), Code::NotFound);
    assert!(cri.containers(None).await.iter().all(|container| container.id != id));
}

pub(crate) async fn a_container_cannot_be_made_twice(cri: Cri) {
    let mut config = cri.container_config("true");
    let (pod, id, sandbox) = cri.pod_with_config(config.clone()).await;
    cri.create(&pod, &sandbox, &config).await.expect_err("the name is taken");
    config.metadata.as_mut().expect("metadata").attempt = 1;
    cri.create(&pod, &sandbox, &config).await.expect("another attempt is another container");
    config.metadata.as_mut().expect("metadata").attempt = 0;
    cri.remove(&id).await.expect("is removed");
    cri.create(&pod, &sandbox, &config).await.expect("the name is free again");
}

pub(crate) async fn a_container_starts_once(cri: Cri) {
    let (_, id, _) = cri.pod_with("true").await;
    cri.start(&id).await.expect("starts");
    cri.exited(&id).await;
    cri.start(&id).await.expect_err("a container that has ended does not start again");
    cri.start("there-is-no-such-container").await.expect_err("nothing to start");
}

pub(crate) async fn exit_codes_and_reasons(cri: Cri) {
    for (script, code, reason) in [
        ("exit 0", 0, "Completed"),
        ("exit 1", 1, "Error"),
        ("exit 42", 42, "Error"),
        ("sh -c 'kill -9 $$'; exit $?", 137, "Error"),
        ("sh -c 'kill -15 $$'; exit $?", 143, "Error"),
    ] {
        let (status, _) = cri.run(cri.container_config(script)).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (code, reason), "{script}");
    }
}

pub(crate) async fn stop_asks_first_and_kills_later(cri: Cri) {
    let listens = "trap 'exit 143' TERM; echo ready; while :; do sleep 0.05; done";
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    for (script, grace, code) in [(listens, 60, 143), (deaf, 1, 137)] {
        let (_, id, _) = cri.pod_with(script).await;
        cri.start(&id).await.expect("starts");
        let status = cri.status(&id).await.expect("a status");
        while cri.log(&status).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cri.stop(&id, grace).await.expect("stops");
        assert_eq!(cri.status(&id).await.expect("a status").exit_code, code, "{script}");
    }
}

pub(crate) async fn stop_without_grace_kills(cri: Cri) {
    let (_, id, _) = cri.pod_with("trap '' TERM; while :; do sleep 0.05; done").await;
    cri.start(&id).await.expect("starts");
    cri.stop(&id, 0).await.expect("stops");
    let status = cri.status(&id).await.expect("a status");
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 137));
}

pub(crate) async fn stop_ends_the_whole_tree(cri: Cri) {
    let folder = cri.folder("tree");
    let mut config = cri.container_config(
        "(trap '' TERM; while :; do date > /out/beat; sleep 0.05; done) & echo x > /out/on; wait",
    );
    config.mounts.push(v1::Mount {
        host_path: folder.to_string_lossy().into_owned(),
        container_path: "/out".to_owned(),
        ..Default::default()
    });
    // Processes of the host's namespace have no kernel to end them with their parent.
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.namespace_options.get_or_insert_default().pid = v1::NamespaceMode::Node as i32;
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect("starts");
    cri.told(&folder.join("beat")).await;
    cri.stop(&id, 0).await.expect("stops");
    cri.remove(&id).await.expect("is removed");
    std::fs::remove_file(folder.join("beat")).expect("the last beat");
    // A survivor would write again at once and for ever: a few of its periods are proof enough.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!folder.join("beat").exists(), "a child of the container survived it");
}

pub(crate) async fn a_start_that_fails_is_an_exit_with_a_reason(cri: Cri) {
    let mut config = cri.container_config("");
    config.command = vec!["/there/is/no/such/program".to_owned()];
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect_err("cannot start");
    let status = cri.status(&id).await.expect("a status");
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 128));
    assert_eq!(status.reason, "StartError");
    assert!(status.message.contains("/there/is/no/such/program"), "{}", status.message);
    cri.remove(&id).await.expect("is removed");
}

pub(crate) async fn out_of_memory_is_told(cri: Cri) {
    let mut config = cri.container_config("exec tail /dev/zero");
    config.linux.get_or_insert_default().resources =
        Some(v1::LinuxContainerResources { memory_limit_in_bytes: 16 << 20, ..Default::default() });
    let (status, _) = cri.run(config).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
}

pub(crate) async fn limits_can_be_changed(cri: Cri) {
    let mut config = cri.container_config("exec sleep 3600");
    config.linux.get_or_insert_default().resources = Some(v1::LinuxContainerResources {
        cpu_shares: 512,
        memory_limit_in_bytes: 64 << 20,
        ..Default::default()
    });
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect("starts");
    let request = v1::UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(v1::LinuxContainerResources { memory_limit_in_bytes: 32 << 20, ..Default::default() }),
        ..Default::default()
    };
    cri.runtime().await.update_container_resources(request).await.expect("new limits");
    let script =
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null; true";
    let told = cri.exec(&id, script, 0).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&told.stdout).trim(), (32 << 20).to_string());
}

pub(crate) async fn numbers_are_counted(cri: Cri) {
    let (pod, id, _) =
        cri.pod_with("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    let used = loop {
        let request = v1::ContainerStatsRequest { container_id: id.clone() };
        let stats = cri.runtime().await.container_stats(request).await.expect("numbers").into_inner().stats;
        let stats = stats.expect("numbers");
        let cpu = stats.cpu.and_then(|cpu| cpu.usage_core_nano_seconds).map_or(0, |value| value.value);
        let memory = stats.memory.and_then(|memory| memory.working_set_bytes).map_or(0, |value| value.value);
        if cpu > 0 && memory > 0 {
            break stats.attributes.expect("attributes");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(used.id, id);
    let filter = Some(v1::ContainerStatsFilter { pod_sandbox_id: pod, ..Default::default() });
    let request = v1::ListContainerStatsRequest { filter };
    let list = cri.runtime().await.list_container_stats(request).await.expect("numbers").into_inner().stats;
    assert_eq!(list.len(), 1);
}
