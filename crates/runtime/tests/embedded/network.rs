//! Pods with a network of their own: loopback only, or what CNI gives them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rubelet_cri::v1;

use crate::cri::Cri;
use crate::with_runtime;

fn own_network(mut config: v1::PodSandboxConfig) -> v1::PodSandboxConfig {
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.namespace_options.get_or_insert_default().network = v1::NamespaceMode::Pod as i32;
    config.hostname = "own-name".to_owned();
    config
}

async fn output(cri: &Cri, sandbox: &v1::PodSandboxConfig, script: &str) -> (String, Vec<String>) {
    let pod = cri.run_pod(sandbox).await.expect("a pod");
    let id = cri.create(&pod, sandbox, &cri.container_config(script)).await.expect("a container");
    cri.start(&id).await.expect("starts");
    let status = cri.exited(&id).await;
    let lines = cri.log(&status).await;
    let texts =
        lines.iter().filter_map(|line| line.split_once(" stdout F ").map(|(_, text)| text.to_owned()));
    (pod, texts.collect())
}

#[test]
fn a_pod_without_cni_has_loopback_and_a_name() {
    with_runtime("loop", None, async |runtime, cri| {
        let script = "hostname; cat /sys/class/net/lo/operstate; ls /sys/class/net; \
                      cat /proc/sys/net/ipv4/ip_unprivileged_port_start; cat /etc/hostname";
        let mut sandbox = own_network(cri.pod_config());
        let linux = sandbox.linux.get_or_insert_default();
        linux.sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "80".to_owned());
        let (pod, lines) = output(&cri, &sandbox, script).await;
        assert_eq!(lines, ["own-name", "unknown", "lo", "80", "own-name"]);
        let network = cri.pod_status(&pod).await.expect("a status").network;
        assert_eq!(network, None, "a network without an address would be one that is broken");
        cri.clear().await.expect("is removed");
        assert!(runtime.mounts().is_empty());
    });
}

/// What holds a namespace, by the kernel's number of such file systems.
const NSFS: &str = "6e736673";

/// Two plugins that keep a diary, set a kernel setting of the pod and give fixed addresses.
fn write_plugins(folder: &Path) -> PathBuf {
    let (conf, bin) = (folder.join("conf"), folder.join("bin"));
    std::fs::create_dir_all(&conf).expect("a folder");
    std::fs::create_dir_all(&bin).expect("a folder");
    let script = r#"#!/bin/sh
input=$(cat)
namespace=$(test -n "$CNI_NETNS" && stat -f -c %t "$CNI_NETNS")
previous=$(echo "$input" | grep -c prevResult)
echo "$CNI_COMMAND $(basename $0) $CNI_IFNAME $namespace $previous" >> $(dirname $0)/../diary
if [ $CNI_COMMAND = ADD ]; then
    nsenter --net="$CNI_NETNS" sh -c 'echo 99 > /proc/sys/net/ipv4/ip_unprivileged_port_start'
    echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.8.7/24"},{"address":"fd00::7/64"}]}'
fi
"#;
    for name in ["first", "second"] {
        let path = bin.join(name);
        std::fs::write(&path, script).expect("a plugin");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a plugin");
    }
    let list = r#"{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"first"},{"type":"second"}]}"#;
    std::fs::write(conf.join("10-test.conflist"), list).expect("a configuration");
    conf
}

#[test]
fn cni_plugins_are_run_in_order_and_undone_in_reverse() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = write_plugins(folder.path());
    let diary = folder.path().join("diary");
    with_runtime("cni", Some(conf), async |runtime, cri| {
        let sandbox = own_network(cri.pod_config());
        let pod = cri.run_pod(&sandbox).await.expect("a pod");
        let network = cri.pod_status(&pod).await.expect("a status").network.expect("a network");
        assert_eq!((network.ip.as_str(), network.additional_ips[0].ip.as_str()), ("10.9.8.7", "fd00::7"));
        // The addresses and the duty to undo survive a restart.
        runtime.kill();
        runtime.launch();
        let network = cri.pod_status(&pod).await.expect("a status").network.expect("a network");
        assert_eq!(network.ip, "10.9.8.7");
        cri.stop_pod(&pod).await.expect("stops");
        cri.stop_pod(&pod).await.expect("stops again");
        cri.clear().await.expect("is removed");
        let text = std::fs::read_to_string(&diary).expect("a diary");
        let expected = [
            format!("ADD first eth0 {NSFS} 0"),
            format!("ADD second eth0 {NSFS} 1"),
            format!("DEL second eth0 {NSFS} 1"),
            format!("DEL first eth0 {NSFS} 1"),
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "undone once, though stopped twice");
        assert!(runtime.mounts().is_empty());
    });
}

#[test]
fn a_network_is_undone_after_a_reboot() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = write_plugins(folder.path());
    let diary = folder.path().join("diary");
    with_runtime("boot", Some(conf), async |runtime, cri| {
        let pod = cri.run_pod(&own_network(cri.pod_config())).await.expect("a pod");
        runtime.kill();
        for mount in runtime.mounts().iter().rev() {
            let done = std::process::Command::new("umount").arg("-l").arg(mount).status().expect("umount");
            assert!(done.success(), "{}", mount.display());
        }
        runtime.launch();
        cri.stop_pod(&pod).await.expect("stops");
        cri.remove_pod(&pod).await.expect("is removed");
        let text = std::fs::read_to_string(&diary).expect("a diary");
        let undone: Vec<&str> = text.lines().filter(|line| line.starts_with("DEL")).collect();
        assert_eq!(
            undone,
            ["DEL second eth0  1", "DEL first eth0  1"],
            "without a namespace that is no more"
        );
    });
}

#[test]
fn kernel_settings_are_set_when_the_network_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = write_plugins(folder.path());
    let diary = folder.path().join("diary");
    with_runtime("sysctl", Some(conf), async |runtime, cri| {
        const PORTS: &str = "net.ipv4.ip_unprivileged_port_start";
        let script = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced";
        let mut sandbox = own_network(cri.pod_config());
        let (_, lines) = output(&cri, &sandbox, script).await;
        assert_eq!(lines, ["99", "0"], "as the plugins leave them");
        cri.clear().await.expect("is removed");

        let asked = [(PORTS, "80"), ("kernel.shm_rmid_forced", "1")];
        let sysctls = &mut sandbox.linux.get_or_insert_default().sysctls;
        sysctls.extend(asked.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let (_, lines) = output(&cri, &sandbox, script).await;
        assert_eq!(lines, ["80", "1"], "the pod's word wins over a plugin's");
        cri.clear().await.expect("is removed");

        std::fs::remove_file(&diary).expect("a diary");
        let missing = "net.ipv4.conf.eth9.rp_filter";
        sandbox.linux.get_or_insert_default().sysctls.insert(missing.to_owned(), "2".to_owned());
        let refused = cri.run_pod(&sandbox).await.expect_err("there is no such interface");
        assert!(refused.message().contains(missing), "{refused}");
        let text = std::fs::read_to_string(&diary).expect("a diary");
        let verbs: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(verbs, ["ADD", "ADD", "DEL", "DEL"], "its network is undone");
        assert!(runtime.mounts().is_empty());
    });
}
