//! Property tests: whatever a request contains, deciding about it neither panics nor leads outside.

use std::path::{Component, Path};

use proptest::prelude::*;
use rubelet_cri::v1;

use super::cgroup::Cgroups;
use super::facts::Facts;
use super::soup::{soup, words};
use super::spec::{self, Namespace, Namespaces, SandboxFiles};
use super::user::{self, Wanted};
use super::{container, enums, mountinfo, pod, update};
use crate::image::ImageConfig;

fn merged<M: prost::Message + Default>(base: &M, soup: &[u8]) -> Option<M> {
    let mut bytes = base.encode_to_vec();
    bytes.extend_from_slice(soup);
    M::decode(bytes.as_slice()).ok()
}

fn container_base() -> v1::ContainerConfig {
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: "c".into(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: "host".into(), ..Default::default() }),
        command: vec!["true".into()],
        linux: Some(v1::LinuxContainerConfig::default()),
        ..Default::default()
    }
}

fn pod_base() -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: "p".into(),
            uid: "u".into(),
            namespace: "n".into(),
            attempt: 0,
        }),
        linux: Some(v1::LinuxPodSandboxConfig::default()),
        ..Default::default()
    }
}

fn cgroups(v2: bool) -> Cgroups {
    let table = if v2 {
        "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 c rw\n".to_owned()
    } else {
        ["cpu", "memory", "pids", "cpuset"]
            .map(|name| format!("1 2 0:1 / /sys/fs/cgroup/{name} rw - cgroup c rw,{name}\n"))
            .concat()
    };
    Cgroups::from_mounts(&mountinfo::parse(&table))
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| !matches!(part, Component::ParentDir))
}

proptest! {
    #[test]
    fn a_container_is_a_spec_or_a_refusal(bytes in soup(words()), sandbox in soup(words()), v2: bool) {
        let Some(config) = merged(&container_base(), &bytes) else { return Ok(()) };
        let Some(sandbox) = merged(&pod_base(), &sandbox) else { return Ok(()) };
        if enums::check_container(&config).is_err() {
            return Ok(());
        }
        let facts = Facts::able(cgroups(v2));
        let namespaces = Namespaces {
            pid: Namespace::New,
            ipc: Namespace::Host,
            uts: Namespace::Join("/uts".into()),
            network: Namespace::Host,
        };
        let context = config.linux.clone().and_then(|linux| linux.security_context).unwrap_or_default();
        let wanted = Wanted {
            run_as_user: context.run_as_user.map(|value| value.value),
            run_as_username: &context.run_as_username,
            run_as_group: context.run_as_group.map(|value| value.value),
            supplemental_groups: &context.supplemental_groups,
            merge_image_groups: true,
            image_user: "",
        };
        let Ok(user) = user::resolve(&wanted, "root:x:0:0::/:/bin/sh\n", "root:x:0:\n") else { return Ok(()) };
        let built = spec::build(&spec::Input {
            config: &config,
            sandbox: &sandbox,
            image: &ImageConfig::default(),
            host_image: false,
            user: &user,
            namespaces: &namespaces,
            files: &SandboxFiles::default(),
            image_volumes: &[],
            devices: &[],
            cgroup: "/p/c",
            rootfs: Path::new("/c/rootfs"),
            facts: &facts,
        });
        if let Ok(built) = built {
            let parsed = serde_json::from_value::<libcontainer::oci_spec::runtime::Spec>(built);
            prop_assert!(parsed.is_ok(), "{parsed:?}");
        }
    }

    #[test]
    fn a_pod_is_planned_inside_its_places(bytes in soup(words()), v2: bool) {
        let Some(config) = merged(&pod_base(), &bytes) else { return Ok(()) };
        if let Ok(group) = pod::planned_cgroup(&config, &cgroups(v2)) {
            prop_assert!(group.starts_with('/') && is_plain(Path::new(&group)), "{group}");
        }
    }

    #[test]
    fn a_log_stays_in_its_folder(path in prop::sample::select(words())) {
        if let Ok(Some(full)) = container::log_path("/logs", &path) {
            prop_assert!(full.starts_with("/logs") && is_plain(&full), "{}", full.display());
        }
    }

    #[test]
    fn a_change_of_limits_writes_files_of_its_group_only(bytes in soup(words()), v2: bool) {
        let Some(wanted) = merged(&v1::LinuxContainerResources::default(), &bytes) else { return Ok(()) };
        let facts = Facts::able(cgroups(v2));
        for file in update::planned_files(&facts, &wanted).unwrap_or_default() {
            prop_assert!(Path::new(&file).components().count() == 1 && is_plain(Path::new(&file)), "{file}");
        }
    }
}
