//! What a container sees and may do.

use std::time::Duration;

use rubelet_cri::v1;

use crate::cri::Cri;

fn context(config: &mut v1::ContainerConfig) -> &mut v1::LinuxContainerSecurityContext {
    config.linux.get_or_insert_default().security_context.get_or_insert_default()
}

pub(crate) async fn environment_folder_and_user(cri: Cri) {
    let mut config = cri
        .container_config("echo $A; echo $0; pwd; id -u; id -g; echo $HOME; grep ^Groups /proc/self/status");
    config.args = vec!["zero".to_owned()];
    config.envs.push(v1::KeyValue { key: "A".to_owned(), value: b"b=c".to_vec() });
    config.working_dir = "/proc".to_owned();
    let user = context(&mut config);
    user.run_as_user = Some(v1::Int64Value { value: 1234 });
    user.run_as_group = Some(v1::Int64Value { value: 2345 });
    user.supplemental_groups = vec![3456];
    let lines = cri.output(config).await;
    assert_eq!(
        lines[..6],
        ["b=c", "zero", "/proc", "1234", "2345", "/"],
        "a user that nobody knows lives in /"
    );
    assert!(lines[6].contains("3456"), "{}", lines[6]);
}

pub(crate) async fn the_umask_is_the_usual_one(cri: Cri) {
    const SCRIPT: &str = "umask; cat /some/where/new/word /some/where/else/word";
    let mut config = cri.container_config(&format!("{SCRIPT}; exec sleep 3600"));
    // Whoever it is reaches what is mounted, and what was made for that.
    context(&mut config).run_as_user = Some(v1::Int64Value { value: 1234 });
    let given = cri.folder("given");
    std::fs::write(given.join("word"), "given\n").expect("a word");
    for (host, inside) in [(given.clone(), "/some/where/new"), (given.join("a/b"), "/some/where/else")] {
        config.mounts.push(v1::Mount {
            host_path: host.to_string_lossy().into_owned(),
            container_path: inside.to_owned(),
            ..Default::default()
        });
    }
    let (_, id, _) = cri.pod_with_config(config).await;
    std::fs::write(given.join("a/b/word"), "made\n").expect("a word");
    cri.start(&id).await.expect("starts");
    let told = cri.exec(&id, SCRIPT, 0).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&told.stdout), "0022\ngiven\nmade\n");
    let status = cri.status(&id).await.expect("a status");
    let lines = loop {
        match cri.log(&status).await {
            lines if lines.len() == 3 => break lines,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let said: Vec<_> = lines.iter().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(said, ["0022", "given", "made"]);
}

pub(crate) async fn streams_can_be_opened_by_their_names(cri: Cri) {
    const SCRIPT: &str = "echo out > /dev/stdout; echo err > /dev/stderr";
    let mut config = cri.container_config(&format!("{SCRIPT}; exec sleep 3600"));
    context(&mut config).run_as_user = Some(v1::Int64Value { value: 1234 });
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect("starts");
    let joined = cri.exec(&id, SCRIPT, 0).await.expect("an answer");
    assert_eq!((joined.stdout.as_slice(), joined.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    cri.stop(&id, 0).await.expect("stops");
    let lines = cri.log(&cri.exited(&id).await).await;
    for wanted in [" stdout F out", " stderr F err"] {
        assert!(lines.iter().any(|line| line.ends_with(wanted)), "{lines:?}");
    }
}

pub(crate) async fn control_groups_are_read_only(cri: Cri) {
    let script = "groups=$(grep ' /sys/fs/cgroup.* - cgroup' /proc/self/mountinfo | cut -d ' ' -f 5); \
        for group in $groups; do ls -d $group/cgroup.procs; mkdir $group/x && echo made; done; \
        grep ' /sys/fs/cgroup.* - cgroup' /proc/self/mountinfo | grep -v ' ro,'";
    let lines = cri.output(cri.container_config(script)).await;
    assert!(!lines.is_empty() && lines.iter().all(|line| line.ends_with("/cgroup.procs")), "{lines:?}");
    // Also where the host's processes are seen.
    let node = v1::NamespaceOption { pid: v1::NamespaceMode::Node as i32, ..crate::cri::namespaces() };
    let mut config = cri.container_config(script);
    context(&mut config).namespace_options = Some(node);
    assert_eq!(cri.output(config).await, lines);
}

pub(crate) async fn a_missing_folder_to_work_in_is_made(cri: Cri) {
    let volume = cri.folder("work");
    let mut config = cri.container_config("pwd");
    config.working_dir = "/some/work/that/is/new".to_owned();
    config.mounts.push(v1::Mount {
        host_path: volume.to_string_lossy().into_owned(),
        container_path: "/some/work".to_owned(),
        ..Default::default()
    });
    assert_eq!(cri.output(config).await, ["/some/work/that/is/new"]);
    assert!(volume.join("that/is/new").is_dir());
}

pub(crate) async fn the_machines_devices_are_out_of_reach(cri: Cri) {
    let script = "mknod /dev/disk b 7 0 && mknod /dev/log c 1 11 && mknod /dev/full2 c 1 7; cd /dev; \
        for device in disk log full2 null full; do true < $device && echo $device; done; (true < disk) 2>&1 | grep -ci permitted";
    assert_eq!(cri.output(cri.container_config(script)).await, ["full2", "null", "full", "1"]);
}

pub(crate) async fn a_read_only_root_is_read_only(cri: Cri) {
    let mut config = cri.container_config(
        "for folder in / /etc /tmp /run /var/tmp /dev/shm /tmp/some/data /run/data; do echo x > $folder/x && echo $folder; done",
    );
    context(&mut config).readonly_rootfs = true;
    for place in ["/tmp/some/data", "/run/data"] {
        config.mounts.push(v1::Mount {
            host_path: cri.folder("data").to_string_lossy().into_owned(),
            container_path: place.to_owned(),
            ..Default::default()
        });
    }
    assert_eq!(cri.output(config).await, ["/dev/shm", "/tmp/some/data", "/run/data"]);
}

pub(crate) async fn hidden_and_read_only_paths_are_so(cri: Cri) {
    let mut config = cri.container_config(
        "cat /etc/passwd | wc -c; ls /proc/fs | wc -l; echo x > /dev/shm/x || echo refused; echo x > /tmp/x && echo written",
    );
    let rules = context(&mut config);
    rules.masked_paths = ["/etc/passwd", "/proc/fs", "/there/is/no/such/path"].map(str::to_owned).to_vec();
    rules.readonly_paths = ["/dev/shm", "/there/is/no/such/path"].map(str::to_owned).to_vec();
    assert_eq!(cri.output(config).await, ["0", "0", "refused", "written"]);
}

pub(crate) async fn a_pod_can_use_the_nodes_ipc(cri: Cri) {
    let mut sandbox = cri.pod_config();
    let options = v1::NamespaceOption { ipc: v1::NamespaceMode::Node as i32, ..crate::cri::namespaces() };
    let linux = sandbox.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().namespace_options = Some(options.clone());
    let pod = cri.run_pod(&sandbox).await.expect("a pod");
    let mut config = cri.container_config("readlink /proc/self/ns/ipc");
    context(&mut config).namespace_options = Some(options);
    let id = cri.create(&pod, &sandbox, &config).await.expect("a container");
    cri.start(&id).await.expect("starts");
    let status = cri.exited(&id).await;
    let own = std::fs::read_link("/proc/self/ns/ipc").expect("a namespace").to_string_lossy().into_owned();
    let lines = cri.log(&status).await;
    assert!(lines.iter().any(|line| line.ends_with(&own)), "{lines:?} is not {own}");
}

pub(crate) async fn capabilities_are_what_was_asked(cri: Cri) {
    let script = "grep ^CapEff /proc/self/status | cut -f2";
    let mut none = cri.container_config(script);
    let drop = v1::Capability { drop_capabilities: vec!["ALL".to_owned()], ..Default::default() };
    context(&mut none).capabilities = Some(drop.clone());
    assert_eq!(cri.output(none).await, ["0000000000000000"]);
    let mut one = cri.container_config(script);
    context(&mut one).capabilities =
        Some(v1::Capability { add_capabilities: vec!["KILL".to_owned()], ..drop });
    assert_eq!(cri.output(one).await, ["0000000000000020"]);
    let usual = cri.output(cri.container_config(script)).await;
    assert_eq!(usual, ["00000000a80425fb"], "what every runtime gives");
}

/// Which of the classic signals a mask of `/proc/self/status` holds; the C library's own ones are nobody's business.
fn classic(line: &str) -> u64 {
    let mask = line.split_whitespace().nth(1).expect("a mask");
    u64::from_str_radix(mask, 16).expect("a number") & 0x7fff_ffff
}

pub(crate) async fn signals_are_as_a_program_expects(cri: Cri) {
    let script = "exec grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let first = cri.output(cri.container_config(script)).await;
    assert_eq!(first.iter().map(|line| classic(line)).collect::<Vec<_>>(), [0, 0], "{first:?}");
    let (_, id, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    let answer = cri.exec(&id, script, 0).await.expect("an answer");
    let joined = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert_eq!(joined.lines().map(classic).collect::<Vec<_>>(), [0, 0], "{joined}");
}

pub(crate) async fn each_container_has_its_own_processes(cri: Cri) {
    assert_eq!(cri.output(cri.container_config("echo $$; exec cat /proc/1/comm")).await, ["1", "cat"]);
}

pub(crate) async fn a_pod_can_share_its_processes(cri: Cri) {
    let mut sandbox = cri.pod_config();
    let options = v1::NamespaceOption { pid: v1::NamespaceMode::Pod as i32, ..crate::cri::namespaces() };
    let linux = sandbox.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().namespace_options = Some(options.clone());
    let pod = cri.run_pod(&sandbox).await.expect("a pod");
    let mut first = cri.container_config("exec sleep 3598");
    context(&mut first).namespace_options = Some(options.clone());
    let mut second = cri.container_config(
        "while ! grep -q 3598 /proc/[0-9]*/cmdline; do sleep 0.02; done; test $$ -ne 1; echo $?",
    );
    context(&mut second).namespace_options = Some(options);
    for config in [&first, &second] {
        let id = cri.create(&pod, &sandbox, config).await.expect("a container");
        cri.start(&id).await.expect("starts");
    }
    let all = cri.containers(None).await;
    let second = all.iter().find(|item| item.metadata == second.metadata).expect("is listed");
    let status = cri.exited(&second.id).await;
    assert!(cri.log(&status).await.iter().any(|line| line.ends_with(" F 0")), "it is not the first process");
}

pub(crate) async fn a_privileged_container_has_every_right(cri: Cri) {
    let mut sandbox = cri.pod_config();
    let linux = sandbox.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default().privileged = true;
    let mut config = cri.container_config("mkdir -p /tmp/m && mount -t tmpfs none /tmp/m && echo mounted; test -w /proc/sys/kernel/panic && echo writable");
    context(&mut config).privileged = true;
    let pod = cri.run_pod(&sandbox).await.expect("a pod");
    let id = cri.create(&pod, &sandbox, &config).await.expect("a container");
    cri.start(&id).await.expect("starts");
    let status = cri.exited(&id).await;
    let lines = cri.log(&status).await;
    assert!(lines.iter().any(|line| line.ends_with("mounted")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("writable")), "{lines:?}");
}
