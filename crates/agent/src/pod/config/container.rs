//! The configuration of a container.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod};
use rubelet_cri::{labels, v1};

use super::names::LogName;
use super::sandbox::identity_labels;
use super::{Machine, SecuritySettings, resources, security};
use crate::admission::RuntimeFeatures;
use crate::disk::Hangs;
use crate::environment::{Environment, EnvironmentError};
use crate::image::Resolved;
use crate::pod::hash::{container_hash, hex};
use crate::pod::{stop_signal, written};
use crate::user_ids::IdRange;
use crate::volumes::{Mount, Propagation, VolumeError};

const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";

/// Why a container cannot be configured (`CreateContainerConfigError`).
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("container's runAsUser breaks non-root policy ({who})")]
    RunsAsRoot { who: String },
    #[error("container has runAsNonRoot and image will run as root ({who})")]
    ImageRunsAsRoot { who: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root ({who})"
    )]
    ImageUserIsAName { who: String, user: String },
    #[error(
        "volume {volume:?} is mounted with recursiveReadOnly: Enabled, which the runtime does not support; use \
         IfPossible (container: {container})"
    )]
    NoRecursiveReadOnly { container: String, volume: String },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Hangs(#[from] Hangs),
    #[error("cannot prepare {}: {source}", path.display())]
    Files { path: PathBuf, source: std::io::Error },
}

/// What a container is configured from.
#[derive(Debug)]
pub(crate) struct ContainerParts<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) restart_count: u32,
    pub(crate) image: &'a Resolved,
    pub(crate) environment: &'a Environment,
    /// Volumes first, then what the agent adds.
    pub(crate) mounts: &'a [Mount],
    pub(crate) machine: &'a Machine,
    pub(crate) security: &'a SecuritySettings,
    pub(crate) runtime: RuntimeFeatures,
    /// The ids of its users, if they are not those of the host.
    pub(crate) users: Option<IdRange>,
}

/// Returns what the runtime makes a container from.
pub(crate) fn container_config(parts: &ContainerParts<'_>) -> Result<v1::ContainerConfig, ConfigError> {
    let ContainerParts { pod, container, restart_count, image, environment, mounts, machine, .. } = *parts;
    let mounts: Result<Vec<v1::Mount>, ConfigError> =
        mounts.iter().map(|one| mount(one, container, parts.runtime, parts.users)).collect();
    let expanded = |texts: Option<&Vec<String>>| environment.expand_all(texts.map_or(&[][..], Vec::as_slice));
    let identity = identity_labels(pod).into_iter();
    let name = (labels::CONTAINER_NAME.to_owned(), container.name.clone());
    Ok(v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: container.name.clone(), attempt: restart_count }),
        image: Some(v1::ImageSpec {
            image: image.reference.clone(),
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..v1::ImageSpec::default()
        }),
        command: expanded(container.command.as_ref())?,
        args: expanded(container.args.as_ref())?,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: environment
            .iter()
            .map(|(key, value)| v1::KeyValue { key: key.to_owned(), value: value.as_bytes().to_vec() })
            .collect(),
        mounts: mounts?,
        labels: identity.chain([name]).collect(),
        annotations: annotations(pod, container, restart_count).collect(),
        log_path: LogName { restart_count }.path(&container.name),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        stop_signal: stop_signal::of(container).into(),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources::of_container(pod, container, machine)),
            security_context: Some(security::of_container(
                pod,
                container,
                image,
                parts.security,
                parts.users,
            )?),
        }),
        ..v1::ContainerConfig::default()
    })
}

/// Returns what a later agent needs to know to end the container, even if its manifest is gone.
fn annotations(
    pod: &Pod,
    container: &Container,
    restart_count: u32,
) -> impl Iterator<Item = (String, String)> + use<> {
    let path = container.termination_message_path.clone().unwrap_or_default();
    let policy = container.termination_message_policy.clone().unwrap_or_default();
    let deletion_grace = pod.metadata.deletion_grace_period_seconds;
    [
        (labels::CONTAINER_HASH, Some(hex(container_hash(container)))),
        (labels::CONTAINER_RESTART_COUNT, Some(restart_count.to_string())),
        (TERMINATION_MESSAGE_PATH, Some(path)),
        (TERMINATION_MESSAGE_POLICY, Some(policy)),
        (DELETION_GRACE, deletion_grace.map(|grace| grace.to_string())),
    ]
    .into_iter()
    .chain(written::annotations(pod, container))
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
}

fn mount(
    mount: &Mount,
    container: &Container,
    runtime: RuntimeFeatures,
    users: Option<IdRange>,
) -> Result<v1::Mount, ConfigError> {
    let resolved = mount.recursive_read_only.resolve(runtime.recursive_read_only);
    let recursive_read_only = resolved.ok_or_else(|| ConfigError::NoRecursiveReadOnly {
        container: container.name.clone(),
        volume: mount.volume.clone(),
    })?;
    let propagation = match mount.propagation {
        Propagation::Private => v1::MountPropagation::PropagationPrivate,
        Propagation::HostToContainer => v1::MountPropagation::PropagationHostToContainer,
        Propagation::Bidirectional => v1::MountPropagation::PropagationBidirectional,
    };
    Ok(v1::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.to_string_lossy().into_owned(),
        readonly: mount.read_only,
        selinux_relabel: mount.selinux_relabel,
        propagation: propagation.into(),
        recursive_read_only,
        // Files keep their owners on the host; the container sees those that are mapped.
        uid_mappings: users.map(security::id_mapping).into_iter().collect(),
        gid_mappings: users.map(security::id_mapping).into_iter().collect(),
        ..v1::Mount::default()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::EnvVar;

    use super::*;
    use crate::downward::{NodeFacts, PodFacts};
    use crate::manifest::Objects;
    use crate::pod::testkit;

    #[test]
    fn a_container_is_configured_as_the_kubelet_does() {
        let mut pod = testkit::pod("Always", &[], &["web"]);
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        container.command = Some(vec!["serve".to_owned(), "$(PORT)".to_owned(), "$$(PORT)".to_owned()]);
        container.env =
            Some(vec![EnvVar { name: "PORT".to_owned(), value: Some("80".to_owned()), ..EnvVar::default() }]);
        container.working_dir = Some("/srv".to_owned());
        let container = container.clone();
        let (objects, node) = (Objects::default(), NodeFacts::default());
        let facts = PodFacts { pod: &pod, objects: &objects, node: &node, pod_ips: &[] };
        let environment = Environment::of(&container, &facts).unwrap();
        let image = Resolved { reference: "sha256:1".to_owned(), uid: None, username: String::new() };
        let config = container_config(&ContainerParts {
            pod: &pod,
            container: &container,
            restart_count: 4,
            image: &image,
            environment: &environment,
            mounts: &[],
            machine: &Machine::default(),
            security: &SecuritySettings::default(),
            runtime: RuntimeFeatures::default(),
            users: None,
        })
        .unwrap();
        assert_eq!(config.metadata.unwrap().attempt, 4);
        assert_eq!(config.log_path, "web/4.log");
        assert_eq!(config.command, ["serve", "80", "$(PORT)"]);
        assert_eq!(config.working_dir, "/srv");
        let image = config.image.unwrap();
        assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "image:1"));
        assert_eq!(config.labels.len(), 4);
        assert_eq!(config.labels["io.kubernetes.container.name"], "web");
        let mut keys: Vec<&str> = config.annotations.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "io.kubernetes.container.hash",
                "io.kubernetes.container.restartCount",
                "io.kubernetes.container.terminationMessagePath",
                "io.kubernetes.container.terminationMessagePolicy",
                "io.kubernetes.pod.terminationGracePeriod",
            ]
        );
        assert_eq!(config.annotations["io.kubernetes.container.hash"], hex(container_hash(&container)));
    }

    #[test]
    fn every_mount_of_a_pod_with_users_of_its_own_shows_files_as_theirs() {
        let wanted = Mount {
            volume: "v".to_owned(),
            host_path: "/v".into(),
            container_path: "/v".to_owned(),
            read_only: false,
            recursive_read_only: crate::volumes::RecursiveReadOnly::Disabled,
            propagation: Propagation::Private,
            selinux_relabel: false,
        };
        let of = |users| {
            mount(&wanted, &testkit::container("c"), RuntimeFeatures::default(), users).expect("a mount")
        };
        let ids = v1::IdMapping { host_id: 65_536, container_id: 0, length: 65_536 };
        let mapped = of(Some(IdRange { first: 65_536, length: 65_536 }));
        assert_eq!((mapped.uid_mappings, mapped.gid_mappings), (vec![ids], vec![ids]));
        assert!(of(None).uid_mappings.is_empty() && of(None).gid_mappings.is_empty());
    }

    #[test]
    fn read_only_mounts_are_so_all_the_way_down_where_the_runtime_can() {
        use crate::volumes::RecursiveReadOnly::{Disabled, Enabled, IfPossible};
        let container = testkit::container("c");
        let mounted = |recursive_read_only, can| {
            let wanted = Mount {
                volume: "v".to_owned(),
                host_path: "/v".into(),
                container_path: "/v".to_owned(),
                read_only: true,
                recursive_read_only,
                propagation: Propagation::Private,
                selinux_relabel: false,
            };
            let runtime = RuntimeFeatures { recursive_read_only: can, ..RuntimeFeatures::default() };
            mount(&wanted, &container, runtime, None).map(|mount| mount.recursive_read_only)
        };
        let table = [
            (Disabled, true, Some(false)),
            (IfPossible, true, Some(true)),
            (IfPossible, false, Some(false)),
            (Enabled, true, Some(true)),
            (Enabled, false, None),
        ];
        for (wanted, can, expected) in table {
            assert_eq!(mounted(wanted, can).ok(), expected, "{wanted:?} {can}");
        }
    }
}
