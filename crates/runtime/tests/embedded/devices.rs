//! Devices, where control groups are v2: made so for the runtime, where the machine has others.

use std::process::Command;

use rubelet_cri::v1;
use rubelet_testbed::Embedded;

use crate::cri::Cri;
use crate::with;

/// A runtime that sees one hierarchy of control groups, and that alone.
fn with_one_hierarchy() -> Option<Embedded> {
    const SCRIPT: &str = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"$@\"";
    Embedded::start("devices", |place| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_rubelet-runtime")]);
        command.arg(place.socket()).arg(place.data());
        command
    })
}

/// Says which of some devices can be written to, by nodes that are made for this.
const LOOK: &str = "cd /dev; mknod disk b 7 0; mknod log c 1 11; mknod zeros c 1 5; \
    for device in disk log zeros null; do true >> $device && echo $device; done";

fn context(config: &mut v1::ContainerConfig) -> &mut v1::LinuxContainerSecurityContext {
    config.linux.get_or_insert_default().security_context.get_or_insert_default()
}

/// With the log of the kernel, which whoever has it may write to.
fn given(cri: &Cri, permissions: &str) -> v1::ContainerConfig {
    let device = v1::Device {
        host_path: "/dev/kmsg".to_owned(),
        container_path: "/dev/given".to_owned(),
        permissions: permissions.to_owned(),
    };
    v1::ContainerConfig { devices: vec![device], ..cri.container_config(LOOK) }
}

#[test]
fn a_container_opens_the_devices_that_it_was_given_and_no_others() {
    with(with_one_hierarchy(), async |runtime, cri| {
        for (permissions, wanted) in [("w", &["log", "zeros", "null"][..]), ("rm", &["zeros", "null"])] {
            assert_eq!(cri.output(given(&cri, permissions)).await, wanted, "{permissions}");
        }

        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let told = cri.exec(&id, LOOK, 0).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&told.stdout), "zeros\nnull\n");

        let mut pod = cri.pod_config();
        pod.linux.get_or_insert_default().security_context.get_or_insert_default().privileged = true;
        let sandbox = cri.run_pod(&pod).await.expect("a pod");
        let mut config = cri.container_config(LOOK);
        context(&mut config).privileged = true;
        let id = cri.create(&sandbox, &pod, &config).await.expect("a container");
        cri.start(&id).await.expect("starts");
        let lines = cri.log(&cri.exited(&id).await).await;
        assert!(lines.iter().any(|line| line.ends_with(" stdout F log")), "{lines:?}");
        cri.clear().await.expect("is removed");
        assert!(runtime.groups().is_empty(), "{:?}", runtime.groups());
    });
}
