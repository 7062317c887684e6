//! The pod that every runtime is asked for: on the host's network, with one container of a busybox image.

use std::path::Path;

use rubelet_cri::v1;
use rubelet_testbed::BUSYBOX;

use super::subject::Subject;

/// The namespaces that a kubelet requests for a pod on the host's network.
pub(super) fn namespaces() -> v1::NamespaceOption {
    v1::NamespaceOption {
        network: v1::NamespaceMode::Node as i32,
        pid: v1::NamespaceMode::Container as i32,
        ipc: v1::NamespaceMode::Pod as i32,
        ..Default::default()
    }
}

/// A pod with its logs in this folder.
pub(super) fn sandbox(subject: &Subject, number: usize, place: &Path) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: format!("pod-{number}"),
            uid: format!("uid-{number}"),
            namespace: "bench".to_owned(),
            attempt: 0,
        }),
        log_directory: place.to_string_lossy().into_owned(),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: format!("{}/pod-{number}", subject.group.path()),
            security_context: Some(v1::LinuxSandboxSecurityContext {
                namespace_options: Some(namespaces()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A container that sees this folder as `/place`.
pub(super) fn container(place: &Path, attempt: u32, script: &str) -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "main".to_owned(), attempt }),
        image: Some(v1::ImageSpec { image: BUSYBOX.to_owned(), ..Default::default() }),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        log_path: format!("{attempt}.log"),
        mounts: vec![v1::Mount {
            host_path: place.to_string_lossy().into_owned(),
            container_path: "/place".to_owned(),
            ..Default::default()
        }],
        linux: Some(v1::LinuxContainerConfig {
            security_context: Some(v1::LinuxContainerSecurityContext {
                namespace_options: Some(namespaces()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
