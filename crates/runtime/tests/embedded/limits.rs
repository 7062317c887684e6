//! Limits: as the kernel has them, at the start and after a change, through a restart.

use std::path::PathBuf;

use rubelet_cri::v1;
use rubelet_testbed::Embedded;

use crate::cri::Cri;
use crate::{with, with_runtime};

/// A file of a container's control group, by its name in v2 and in v1, in v1 with the name of its hierarchy.
const FILES: [(&str, &str); 5] = [
    ("cpu.max", "cpu/cpu.cfs_quota_us"),
    ("cpu.weight", "cpu/cpu.shares"),
    ("cpuset.cpus", "cpuset/cpuset.cpus"),
    ("memory.max", "memory/memory.limit_in_bytes"),
    ("pids.max", "pids/pids.max"),
];

/// What the kernel has for a container, in the order of [`FILES`], first words only.
async fn in_force(cri: &Cri, id: &str) -> Vec<String> {
    let request = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
    let answer = cri.runtime().await.container_status(request).await.expect("a status").into_inner();
    let info: serde_json::Value = serde_json::from_str(&answer.info["info"]).expect("JSON");
    let group = info["record"]["cgroup"].as_str().expect("a group").trim_start_matches('/').to_owned();
    let root = PathBuf::from("/sys/fs/cgroup");
    let read = |(v2, v1): &(&str, &str)| {
        let (hierarchy, file) = v1.split_once('/').expect("two parts");
        let text = std::fs::read_to_string(root.join(&group).join(v2))
            .or_else(|_| std::fs::read_to_string(root.join(hierarchy).join(&group).join(file)))
            .expect("a limit");
        text.split_whitespace().next().unwrap_or_default().to_owned()
    };
    FILES.iter().map(read).collect()
}

fn shares(number: i64) -> String {
    let is_v2 = PathBuf::from("/sys/fs/cgroup/cgroup.controllers").exists();
    // The usual translation to v2.
    if is_v2 { (1 + ((number - 2) * 9999) / 262_142).to_string() } else { number.to_string() }
}

async fn update(cri: &Cri, id: &str, linux: v1::LinuxContainerResources) -> Result<(), tonic::Status> {
    let request = v1::UpdateContainerResourcesRequest {
        container_id: id.to_owned(),
        linux: Some(linux),
        ..Default::default()
    };
    cri.runtime().await.update_container_resources(request).await.map(drop)
}

#[test]
fn limits_are_in_force_can_change_and_survive_a_restart() {
    with_runtime("limits", None, async |runtime, cri| {
        let mut config = cri.container_config("exec sleep 3600");
        config.linux.get_or_insert_default().resources = Some(v1::LinuxContainerResources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            cpuset_cpus: "0".to_owned(),
            memory_limit_in_bytes: 64 << 20,
            oom_score_adj: 500,
            unified: [("pids.max".to_owned(), "50".to_owned())].into(),
            ..Default::default()
        });
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        let memory = (64 << 20).to_string();
        assert_eq!(in_force(&cri, &id).await, ["50000", &shares(512), "0", &memory, "50"]);
        let score = |told: v1::ExecSyncResponse| String::from_utf8_lossy(&told.stdout).trim().to_owned();
        assert_eq!(score(cri.exec(&id, "cat /proc/1/oom_score_adj", 0).await.expect("an answer")), "500");

        let change = v1::LinuxContainerResources {
            cpu_quota: 20_000,
            cpu_shares: 1024,
            memory_limit_in_bytes: 32 << 20,
            oom_score_adj: 600,
            unified: [("pids.max".to_owned(), "60".to_owned())].into(),
            ..Default::default()
        };
        update(&cri, &id, change).await.expect("new limits");
        let memory = (32 << 20).to_string();
        let expected = ["20000", &shares(1024), "0", &memory, "60"];
        assert_eq!(in_force(&cri, &id).await, expected);
        assert_eq!(score(cri.exec(&id, "cat /proc/1/oom_score_adj", 0).await.expect("an answer")), "600");

        runtime.kill();
        runtime.launch();
        assert_eq!(in_force(&cri, &id).await, expected);
        let status = cri.status(&id).await.expect("a status");
        let told = status.resources.and_then(|resources| resources.linux).expect("limits");
        assert_eq!((told.cpu_quota, told.cpu_period, told.cpu_shares), (20_000, 100_000, 1024));
        assert_eq!((told.memory_limit_in_bytes, told.cpuset_cpus.as_str()), (32 << 20, "0"));

        let nonsense = v1::LinuxContainerResources { cpu_quota: -2, ..Default::default() };
        let refused = update(&cri, &id, nonsense).await.expect_err("is refused");
        assert!(refused.message().starts_with("linux.resources.cpu_quota: "), "{refused}");
        assert_eq!(in_force(&cri, &id).await, expected, "and nothing has changed");
    });
}

#[test]
fn a_limit_on_processes_is_a_limit() {
    with_runtime("pids", None, async |_, cri| {
        // The second shell is the second process and its first child the third; what it says of the next is an error.
        let mut config = cri.container_config("sh -c 'sleep 60 & sleep 60 & sleep 60 & sleep 60 &'; exit $?");
        let resources = config.linux.get_or_insert_default().resources.get_or_insert_default();
        resources.unified.insert("pids.max".to_owned(), "3".to_owned());
        let (status, lines) = cri.run(config).await;
        let refused = lines.iter().any(|line| line.to_lowercase().contains("fork"));
        assert!(status.exit_code != 0 && refused, "no fork was refused: {status:?} {lines:?}");
    });
}

/// Out of memory in a child: the container goes on, and ends as it likes, but it is told.
#[test]
fn a_child_that_runs_out_of_memory_is_told_and_not_the_containers_end() {
    with_runtime("oom", None, async |_, cri| {
        let mut config = cri.container_config("tail /dev/zero; echo child $?; exit 0");
        config.linux.get_or_insert_default().resources =
            Some(v1::LinuxContainerResources { memory_limit_in_bytes: 16 << 20, ..Default::default() });
        let (status, lines) = cri.run(config).await;
        assert_eq!((status.exit_code, status.reason.as_str()), (0, "OOMKilled"), "{lines:?}");
        assert!(lines.iter().any(|line| line.ends_with("child 137")), "{lines:?}");
    });
}

#[test]
fn a_limit_on_memory_that_nothing_starts_in_is_named() {
    with_runtime("tiny", None, async |_, cri| {
        let mut config = cri.container_config("exec sleep 3600");
        config.linux.get_or_insert_default().resources =
            Some(v1::LinuxContainerResources { memory_limit_in_bytes: 256 << 10, ..Default::default() });
        let (_, id, _) = cri.pod_with_config(config).await;
        let refused = cri.start(&id).await.expect_err("too little");
        assert!(refused.message().contains("memory limit of 262144 bytes"), "{refused}");

        let pod = cri.pod_config();
        let group = pod.linux.as_ref().expect("a group").cgroup_parent.trim_start_matches('/').to_owned();
        let root = PathBuf::from("/sys/fs/cgroup");
        let (v2, v1) = (root.join(&group), root.join("memory").join(&group));
        let (folder, file) = match root.join("cgroup.controllers").exists() {
            true => (v2, "memory.max"),
            false => (v1, "memory.limit_in_bytes"),
        };
        std::fs::create_dir_all(&folder).expect("a group");
        std::fs::write(folder.join(file), "1").expect("a limit");
        let sandbox = cri.run_pod(&pod).await.expect("a pod");
        let config = cri.container_config("exec sleep 3600");
        let id = cri.create(&sandbox, &pod, &config).await.expect("a container");
        let refused = cri.start(&id).await.expect_err("too little");
        assert!(refused.message().contains("memory limit of its pod"), "{refused}");
    });
}

#[test]
fn the_runtime_may_open_more_files_than_its_containers() {
    let runtime = Embedded::start("files", |place| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -S -n 256; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_rubelet-runtime")]);
        command.arg(place.socket()).arg(place.data());
        command
    });
    with(runtime, async |runtime, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        for script in ["ulimit -S -n", "grep 'open files' /proc/1/limits | cut -c27-29"] {
            let answer = cri.exec(&id, script, 0).await.expect("an answer");
            assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "256", "{script}");
        }
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", runtime.pid().expect("a process")));
        let limits = limits.expect("limits");
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a line");
        let numbers: Vec<&str> = files.split_whitespace().take(2).collect();
        assert_eq!(numbers[0], numbers[1], "as many as it may have");
        cri.clear().await.expect("is removed");
    });
}
