//! A user other than root.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rubelet_cri::{Endpoint, Metrics, Options, RuntimeClient, v1};
use rubelet_testbed::{BUSYBOX, Embedded, Place, image_archive, wait};

/// The user `nobody` on every Linux machine.
const USER: u32 = 65534;

/// A command of that user, with a copy of the program in this folder.
fn as_user(place: &Path, args: &[&str]) -> Command {
    let program = place.join("rubelet");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_rubelet"), &program).expect("a copy");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        chown(place, Some(USER), Some(USER)).expect("an owner");
    }
    let mut command = Command::new("setpriv");
    let id = USER.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program).args(args);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", place).current_dir(place);
    command
}

fn runtime(place: &Place) -> Command {
    let mut command = as_user(place.dir(), &["runtime"]);
    // The paths are relative on purpose: the working folder is lost when the user becomes root.
    command.args(["--socket", "s", "--data-dir", "data"]);
    command.env("RUST_LOG", "warn");
    command
}

fn may_make_user_namespaces() -> bool {
    let id = USER.to_string();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--",
        "unshare",
        "--user",
        "--map-root-user",
        "true",
    ]);
    command.output().is_ok_and(|done| done.status.success())
}

fn pod(number: u32) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: format!("p{number}"),
            uid: format!("u{number}"),
            namespace: "n".to_owned(),
            attempt: 0,
        }),
        hostname: "inside".to_owned(),
        linux: Some(v1::LinuxPodSandboxConfig {
            security_context: Some(v1::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn namespaces() -> v1::NamespaceOption {
    v1::NamespaceOption { pid: v1::NamespaceMode::Container as i32, ..Default::default() }
}

fn container(image: &str) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: image.to_owned(), ..Default::default() }),
        command: ["/bin/sh", "-c", "exec sleep 3600"].map(str::to_owned).to_vec(),
        linux: Some(v1::LinuxContainerConfig {
            security_context: Some(v1::LinuxContainerSecurityContext {
                namespace_options: Some(namespaces()),
                seccomp: Some(v1::SecurityProfile {
                    profile_type: v1::security_profile::ProfileType::RuntimeDefault as i32,
                    localhost_ref: String::new(),
                }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn refusal(client: &RuntimeClient, change: impl FnOnce(&mut v1::LinuxContainerConfig)) -> String {
    let sandbox = client.run_pod_sandbox(pod(9), "").await.expect("a pod");
    let mut config = container("host");
    change(config.linux.as_mut().expect("linux"));
    let error = client.create_container(&sandbox, config, pod(9)).await.expect_err("cannot be honoured");
    client.remove_pod_sandbox(&sandbox).await.expect("is removed");
    error.to_string()
}

/// On the machine's network, a container sees the machine's `/sys` and its control groups, some of which may belong to
/// this user.
async fn nothing_of_the_machine_is_writable(client: &RuntimeClient) {
    let options = v1::NamespaceOption { network: v1::NamespaceMode::Node as i32, ..namespaces() };
    let mut pod = pod(2);
    let context = pod.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.namespace_options = Some(options.clone());
    let mut config = container("host");
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.namespace_options = Some(options);
    let sandbox = client.run_pod_sandbox(pod.clone(), "").await.expect("a pod");
    let id = client.create_container(&sandbox, config, pod).await.expect("a container");
    client.start_container(&id).await.expect("starts");
    let script = "grep -c ' /sys/fs/cgroup' /proc/self/mountinfo; grep ' /sys' /proc/self/mountinfo | grep -v ' ro,'; true";
    let answer = client
        .exec_sync(&id, &["sh", "-c", script].map(str::to_owned), Duration::ZERO)
        .await
        .expect("an answer");
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(text.trim().parse::<u32>().is_ok_and(|mounts| mounts > 0), "{text}");
    client.remove_pod_sandbox(&sandbox).await.expect("is removed");
}

async fn lives_and_survives(mut embedded: Embedded) {
    let socket = embedded.socket();
    let client = RuntimeClient::new(
        Endpoint::from_path(&socket).expect("an endpoint"),
        Options::default(),
        Metrics::default(),
    );
    let mut ids = Vec::new();
    for (number, image) in [(0, "host"), (1, BUSYBOX)] {
        let sandbox = client.run_pod_sandbox(pod(number), "").await.expect("a pod");
        let id = client.create_container(&sandbox, container(image), pod(number)).await.expect("a container");
        client.start_container(&id).await.expect("starts");
        ids.push((sandbox, id));
    }
    // Twice: as they were created, and through a runtime that was started later.
    for _ in 0..2 {
        for (_, id) in &ids {
            let script = "id -u; hostname; touch /tmp/mine && echo written; cat /proc/self/uid_map; grep ^Seccomp: /proc/self/status";
            let command = ["sh", "-c", script].map(str::to_owned);
            let answer = client.exec_sync(id, &command, Duration::ZERO).await.expect("an answer");
            let text = String::from_utf8_lossy(&answer.stdout).into_owned();
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words[..3], ["0", "inside", "written"], "{text}");
            assert_eq!(words[4], USER.to_string(), "root inside is this user outside: {text}");
            assert_eq!(words.last(), Some(&"2"), "a filter needs no root outside: {text}");
        }
        embedded.kill();
        embedded.launch();
    }
    nothing_of_the_machine_is_writable(&client).await;
    for (change, field) in [
        (
            refusal(&client, |linux| linux.resources.get_or_insert_default().cpu_quota = 1000).await,
            "linux.resources.cpu_quota",
        ),
        (
            refusal(&client, |linux| {
                linux.security_context.as_mut().expect("context").run_as_user =
                    Some(v1::Int64Value { value: 1000 });
            })
            .await,
            "linux.security_context.run_as_user",
        ),
        (
            refusal(&client, |linux| {
                linux
                    .security_context
                    .as_mut()
                    .expect("context")
                    .namespace_options
                    .as_mut()
                    .expect("options")
                    .pid = v1::NamespaceMode::Node as i32;
            })
            .await,
            "linux.security_context.namespace_options.pid",
        ),
    ] {
        assert!(change.contains(field), "{change}");
    }
    for (sandbox, _) in &ids {
        client.stop_pod_sandbox(sandbox).await.expect("stops");
        client.remove_pod_sandbox(sandbox).await.expect("is removed");
    }
    // A second runtime is refused, without harm to the one that runs.
    let second = as_user(embedded.dir(), &["runtime", "--socket", "other", "--data-dir", "data"]).output();
    let text = String::from_utf8_lossy(&second.expect("runs").stderr).into_owned();
    assert!(text.contains("another runtime is using"), "{text}");
    assert!(!embedded.shims().is_empty(), "the holder of the namespaces is there");
    embedded.stop();
    let gone = wait::until(Duration::from_secs(20), || embedded.shims().is_empty().then_some(()));
    assert!(gone.is_some(), "nothing is left of a runtime that has no pods: {:?}", embedded.shims());
}

#[test]
fn containers_run_in_a_user_namespace() {
    if !may_make_user_namespaces() {
        eprintln!("SKIPPED: this machine allows user {USER} no user namespaces");
        return;
    }
    let Some(embedded) = Embedded::start("rootless", runtime) else { return };
    let archive = embedded.dir().join("images.tar");
    std::fs::write(&archive, image_archive().expect("images")).expect("a file");
    chown(&archive, Some(USER), Some(USER)).expect("an owner");
    let imported = as_user(embedded.dir(), &["image", "import", "images.tar", "--data-dir", "data"]).output();
    said_well(&imported.expect("runs"));
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("tokio");
    tokio.block_on(lives_and_survives(embedded));
}

fn said_well(done: &Output) {
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A machine without user namespaces, simulated by a namespace inside of which no more can be created.
#[test]
fn without_user_namespaces_the_error_says_what_to_do() {
    if !may_make_user_namespaces() {
        return;
    }
    let place = tempfile::Builder::new().prefix("rbl").tempdir_in("/tmp").expect("a folder");
    let script =
        "echo 0 > /proc/sys/user/max_user_namespaces && exec ./rubelet runtime --socket s --data-dir data";
    let inner = as_user(place.path(), &[]);
    // The part of the command up to the program itself: it enters a namespace of the folder's user.
    let words = inner.get_args().take_while(|word| *word != "--");
    let mut command = Command::new(inner.get_program());
    command.args(words).args([
        "--",
        "unshare",
        "--user",
        "--map-current-user",
        "--keep-caps",
        "sh",
        "-c",
        script,
    ]);
    let done = command.current_dir(place.path()).output().expect("runs");
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success());
    assert!(text.contains("user.max_user_namespaces"), "{text}");
}
