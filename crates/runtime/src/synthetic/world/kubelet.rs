//! Pods and containers as a kubelet requests them from a runtime: the labels, annotations, names and paths that it
//! writes.
//!
//! Lists must have the same size on the wire as on a real node, or benchmarks would be wrong.

use std::collections::HashMap;

use rubelet_cri::v1;
use rubelet_model::ContainerState;

pub(crate) const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
pub(super) const CONTAINER_NAME_LABEL: &str = "io.kubernetes.container.name";

/// The specification of a new pod.
#[derive(Clone, Debug)]
pub struct PodSpec {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Option<String>,
    pub(super) labels: HashMap<String, String>,
    pub(super) annotations: HashMap<String, String>,
    pub(super) host_network: bool,
    pub(super) by_hand: bool,
    pub(super) containers: Vec<ContainerSpec>,
}

impl PodSpec {
    /// A pod as a kubelet creates it, without containers so far.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: None,
            labels: HashMap::new(),
            annotations: HashMap::new(),
            host_network: false,
            by_hand: false,
            containers: Vec::new(),
        }
    }

    /// A pod created by hand, as with `crictl runp`: with a name, but without UID and labels.
    pub fn by_hand(name: impl Into<String>) -> Self {
        Self { by_hand: true, ..Self::new("", name) }
    }

    /// Sets the UID, which is otherwise random.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.uid = Some(uid.into());
        self
    }

    /// Adds a container, which runs unless its spec says otherwise.
    #[must_use]
    pub fn container(mut self, container: impl Into<ContainerSpec>) -> Self {
        self.containers.push(container.into());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Puts the pod on the host's network, without addresses of its own.
    #[must_use]
    pub fn host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// Returns the configuration that the kubelet would send.
    pub(super) fn config(&self, uid: &str, attempt: u32) -> v1::PodSandboxConfig {
        let mut config = v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata {
                name: self.name.clone(),
                uid: uid.to_owned(),
                namespace: self.namespace.clone(),
                attempt,
            }),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(v1::LinuxSandboxSecurityContext {
                    namespace_options: Some(v1::NamespaceOption {
                        network: i32::from(if self.host_network {
                            v1::NamespaceMode::Node
                        } else {
                            v1::NamespaceMode::Pod
                        }),
                        pid: i32::from(v1::NamespaceMode::Container),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        if self.by_hand {
            return config;
        }
        config.hostname = self.name.clone();
        config.log_directory = format!("/var/log/pods/{}_{}_{uid}", self.namespace, self.name);
        config.labels.extend(pairs(&[
            (POD_NAME_LABEL, &self.name),
            (POD_NAMESPACE_LABEL, &self.namespace),
            (POD_UID_LABEL, uid),
        ]));
        config.annotations.extend(pairs(&[
            ("kubernetes.io/config.seen", "2026-01-01T00:00:00.000000000Z"),
            ("kubernetes.io/config.source", "api"),
        ]));
        config
    }
}

impl From<&str> for PodSpec {
    /// Parses `namespace/name`, or a name in the namespace `default`.
    fn from(text: &str) -> Self {
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        Self::new(namespace, name)
    }
}

impl From<&String> for PodSpec {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

/// The specification of a new container.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) attempt: Option<u32>,
    pub(super) annotations: HashMap<String, String>,
    pub(super) state: ContainerState,
    pub(super) exit_code: i32,
    pub(super) by_hand: bool,
}

impl ContainerSpec {
    /// A container with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            image: "registry.example.com/library/application:v1.36.0".to_owned(),
            attempt: None,
            annotations: HashMap::new(),
            state: ContainerState::Running,
            exit_code: 0,
            by_hand: false,
        }
    }

    /// A container created by hand, as with `crictl create`: without labels, whatever its pod has.
    pub fn by_hand(name: impl Into<String>) -> Self {
        Self { by_hand: true, ..Self::new(name) }
    }

    /// Sets the image.
    #[must_use]
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = image.into();
        self
    }

    /// Sets the attempt, which is otherwise the next one.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// Makes it created with its pod, but not started.
    #[must_use]
    pub fn created(mut self) -> Self {
        self.state = ContainerState::Created;
        self
    }

    /// Makes it created with its pod, started, and exited.
    #[must_use]
    pub fn exited(mut self, code: i32) -> Self {
        self.state = ContainerState::Exited;
        self.exit_code = code;
        self
    }

    /// Returns the configuration that the kubelet would send for a container in this sandbox.
    pub(super) fn config(&self, pod: &v1::PodSandboxConfig, attempt: u32) -> v1::ContainerConfig {
        let mut config = v1::ContainerConfig {
            metadata: Some(v1::ContainerMetadata { name: self.name.clone(), attempt }),
            image: Some(v1::ImageSpec {
                image: self.image.clone(),
                user_specified_image: self.image.clone(),
                ..Default::default()
            }),
            annotations: self.annotations.clone(),
            log_path: format!("{}/{attempt}.log", self.name),
            ..Default::default()
        };
        let Some(uid) = pod.labels.get(POD_UID_LABEL).filter(|_| !self.by_hand) else {
            return config;
        };
        let label = |key: &str| pod.labels.get(key).map_or("", String::as_str);
        config.labels = pairs(&[
            (POD_NAME_LABEL, label(POD_NAME_LABEL)),
            (POD_NAMESPACE_LABEL, label(POD_NAMESPACE_LABEL)),
            (POD_UID_LABEL, uid),
            (CONTAINER_NAME_LABEL, &self.name),
        ]);
        config.annotations.extend(pairs(&[
            ("io.kubernetes.container.hash", &spec_hash(&self.name, &self.image)),
            ("io.kubernetes.container.restartCount", &attempt.to_string()),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "30"),
            ("io.kubernetes.container.ports", r#"[{"name":"http","containerPort":8080,"protocol":"TCP"}]"#),
        ]));
        config.mounts = [
            (
                "/var/run/secrets/kubernetes.io/serviceaccount",
                "volumes/kubernetes.io~projected/kube-api-access",
            ),
            ("/etc/hosts", "etc-hosts"),
            ("/dev/termination-log", "containers/log"),
        ]
        .map(|(inside, outside)| v1::Mount {
            container_path: inside.to_owned(),
            host_path: format!("/var/lib/kubelet/pods/{uid}/{outside}"),
            readonly: inside.starts_with("/var"),
            ..Default::default()
        })
        .into();
        config
    }
}

impl From<&str> for ContainerSpec {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for ContainerSpec {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

/// Returns a hash of the spec in the kubelet's notation: 32 bits, hexadecimal, without leading zeros.
fn spec_hash(name: &str, image: &str) -> String {
    let hash = name
        .bytes()
        .chain(image.bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

fn pairs(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}
