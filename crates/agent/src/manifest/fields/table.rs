//! How each field of a pod is treated, and each field inside it: the single list from which both the remarks at load
//! time and `docs/pod-fields.md` are made. A field that Kubernetes adds fails a test until it is listed.

use super::Verdict::{Ignored, Parts, Refused, Works};
use super::{Type, Verdict};

const OK: Verdict = Works("");
const SCHEDULING: Verdict = Ignored("there is no scheduler; the pod runs on this node");
const PROBE_NOTE: &str = "[probes.md](probes.md)";
pub(super) const CLOSED_GATES: &str =
    "nothing sets such conditions on a static pod, so it never becomes ready";
const WINDOWS: Verdict = Refused("only for Windows");
const NO_SERVICE_ACCOUNTS: Verdict = Refused("service accounts need the API server");
const APP_ARMOR_NOTE: &str = "on kernels with AppArmor; elsewhere only `Unconfined` is admitted; the embedded \
                              runtime has no `RuntimeDefault`, and its error says so";
const SELINUX_NOTE: &str = "on kernels with SELinux, except with the embedded runtime, which refuses them; elsewhere \
                            they are ignored, and an event says so";
const SECCOMP_NOTE: &str =
    "in the embedded runtime on x86_64 and aarch64, and without `SCMP_ACT_NOTIFY`, which its error names";
const API_VOLUME: Verdict = Refused("such volumes need the API server");
const NETWORK_VOLUME: Verdict = Refused("mount it on the host and use `hostPath`");
const OLD_VOLUME: Verdict =
    Refused("Kubernetes has removed this type, or supports it only through CSI drivers");

pub(super) static POD_SPEC: Type = Type {
    name: "PodSpec",
    fields: &[
        ("activeDeadlineSeconds", OK),
        ("affinity", Parts(&AFFINITY, "node affinity is checked at admission")),
        ("automountServiceAccountToken", Ignored("there are no service accounts, so no token is mounted")),
        ("containers", Parts(&CONTAINER, "at most 500")),
        ("dnsConfig", Parts(&DNS_CONFIG, "")),
        (
            "dnsPolicy",
            Works(
                "without a cluster DNS (`clusterDNS` in the configuration), `ClusterFirst` falls back to `Default`, \
                 and an event says so",
            ),
        ),
        ("enableServiceLinks", Works("there are no services to link to")),
        ("ephemeralContainers", Refused("they are added to running pods through the API server")),
        ("hostAliases", Parts(&HOST_ALIAS, "")),
        ("hostIPC", OK),
        ("hostNetwork", OK),
        ("hostPID", OK),
        (
            "hostUsers",
            Works(
                "`false` if the runtime supports it ([security.md](security.md)); otherwise the pod does not start, \
                 and an event says so",
            ),
        ),
        ("hostname", OK),
        (
            "hostnameOverride",
            Works(
                "replaces `hostname` and `subdomain`; refused together with `hostNetwork` or `setHostnameAsFQDN`",
            ),
        ),
        (
            "imagePullSecrets",
            Parts(&LOCAL_OBJECT, "secrets of both docker types, from the same path or URL as the pod"),
        ),
        ("initContainers", Parts(&CONTAINER, "including sidecars (`restartPolicy: Always`); at most 500")),
        ("nodeName", Ignored("the pod runs on the node that has the manifest")),
        ("nodeSelector", Works("checked at admission against the node's labels")),
        ("os", Parts(&POD_OS, "`windows` is not admitted")),
        ("overhead", Works("counted at admission and in the pod's control group")),
        ("preemptionPolicy", Ignored("priorities need the API server; static pods are always critical")),
        ("priority", Works("2000000000 and above means critical; static pods always are")),
        (
            "priorityClassName",
            Ignored(
                "priorities need the API server; only `system-node-critical` has an effect: its containers are \
                 killed last when memory is short",
            ),
        ),
        ("readinessGates", Parts(&READINESS_GATE, CLOSED_GATES)),
        ("resourceClaims", Refused("resource claims need the API server")),
        ("resources", Parts(&RESOURCES, "huge pages only if the containers' limits are within the pod's")),
        ("restartPolicy", OK),
        ("runtimeClassName", Refused("runtime classes need the API server")),
        ("schedulerName", SCHEDULING),
        ("schedulingGates", Refused("nothing here could ever remove a gate")),
        ("schedulingGroup", SCHEDULING),
        ("securityContext", Parts(&POD_SECURITY_CONTEXT, "")),
        ("serviceAccount", NO_SERVICE_ACCOUNTS),
        ("serviceAccountName", NO_SERVICE_ACCOUNTS),
        ("setHostnameAsFQDN", OK),
        ("shareProcessNamespace", OK),
        ("subdomain", Works("used in the hosts file and by `setHostnameAsFQDN`; no DNS knows the name")),
        ("terminationGracePeriodSeconds", OK),
        ("tolerations", Ignored("this node has no taints")),
        ("topologySpreadConstraints", SCHEDULING),
        ("volumes", Parts(&VOLUME, "")),
    ],
};

static CONTAINER: Type = Type {
    name: "Container",
    fields: &[
        ("args", OK),
        ("command", OK),
        ("env", Parts(&ENV_VAR, "")),
        ("envFrom", Parts(&ENV_FROM, "")),
        ("image", OK),
        ("imagePullPolicy", OK),
        ("lifecycle", Parts(&LIFECYCLE, "")),
        ("livenessProbe", Parts(&PROBE, PROBE_NOTE)),
        ("name", OK),
        ("ports", Parts(&PORT, "a pod with a host port that another pod uses is not admitted")),
        ("readinessProbe", Parts(&PROBE, PROBE_NOTE)),
        ("resizePolicy", Parts(&RESIZE_POLICY, RESIZE_NOTE)),
        ("resources", Parts(&RESOURCES, "")),
        ("restartPolicy", OK),
        ("restartPolicyRules", Parts(&RESTART_RULE, "")),
        ("securityContext", Parts(&SECURITY_CONTEXT, "")),
        ("startupProbe", Parts(&PROBE, PROBE_NOTE)),
        ("stdin", OK),
        ("stdinOnce", OK),
        ("terminationMessagePath", OK),
        ("terminationMessagePolicy", OK),
        ("tty", Works("with containerd and CRI-O; the embedded runtime refuses it, and its error says so")),
        ("volumeDevices", API_VOLUME),
        ("volumeMounts", Parts(&VOLUME_MOUNT, "")),
        ("workingDir", Works("a missing folder is created, except with the image `host`")),
    ],
};

static POD_SECURITY_CONTEXT: Type = Type {
    name: "PodSecurityContext",
    fields: &[
        ("appArmorProfile", Parts(&APP_ARMOR, APP_ARMOR_NOTE)),
        ("fsGroup", OK),
        (
            "fsGroupChangePolicy",
            Works("no effect on the volume types supported here; nor would it have one under a kubelet"),
        ),
        ("runAsGroup", OK),
        ("runAsNonRoot", OK),
        ("runAsUser", OK),
        ("seLinuxChangePolicy", Ignored("the runtime relabels volumes")),
        ("seLinuxOptions", Parts(&SELINUX, SELINUX_NOTE)),
        ("seccompProfile", Parts(&SECCOMP, SECCOMP_NOTE)),
        ("supplementalGroups", OK),
        ("supplementalGroupsPolicy", Works("`Strict` is not admitted if the runtime does not support it")),
        ("sysctls", Parts(&SYSCTL, "safe ones and those that the node allows; others are not admitted")),
        ("windowsOptions", WINDOWS),
    ],
};

static SECURITY_CONTEXT: Type = Type {
    name: "SecurityContext",
    fields: &[
        ("allowPrivilegeEscalation", OK),
        ("appArmorProfile", Parts(&APP_ARMOR, APP_ARMOR_NOTE)),
        ("capabilities", Parts(&CAPABILITIES, "")),
        ("privileged", OK),
        ("procMount", Works("`Unmasked` needs `hostUsers: false`, as with a kubelet")),
        ("readOnlyRootFilesystem", OK),
        ("runAsGroup", OK),
        ("runAsNonRoot", OK),
        ("runAsUser", OK),
        ("seLinuxOptions", Parts(&SELINUX, SELINUX_NOTE)),
        ("seccompProfile", Parts(&SECCOMP, SECCOMP_NOTE)),
        ("windowsOptions", WINDOWS),
    ],
};

static VOLUME_MOUNT: Type = Type {
    name: "VolumeMount",
    fields: &[
        ("mountPath", Works("the embedded runtime refuses `/` and `/dev`, and its error says so")),
        (
            "mountPropagation",
            Works(
                "if the host's mount is shared, as with systemd; otherwise the container is refused, and the error \
                 says why",
            ),
        ),
        ("name", OK),
        ("readOnly", OK),
        ("recursiveReadOnly", OK),
        ("subPath", Works("it must exist in volumes written by the agent (such as `configMap`)")),
        ("subPathExpr", OK),
    ],
};

static VOLUME: Type = Type {
    name: "Volume",
    fields: &[
        ("awsElasticBlockStore", OLD_VOLUME),
        ("azureDisk", OLD_VOLUME),
        ("azureFile", OLD_VOLUME),
        ("cephfs", OLD_VOLUME),
        ("cinder", OLD_VOLUME),
        ("configMap", Parts(&CONFIG_MAP, "from the same path or URL as the pod")),
        ("csi", API_VOLUME),
        ("downwardAPI", Parts(&DOWNWARD, "")),
        ("emptyDir", Parts(&EMPTY_DIR, "")),
        ("ephemeral", API_VOLUME),
        ("fc", NETWORK_VOLUME),
        ("flexVolume", OLD_VOLUME),
        ("flocker", OLD_VOLUME),
        ("gcePersistentDisk", OLD_VOLUME),
        ("gitRepo", Refused("clone it in an init container")),
        ("glusterfs", OLD_VOLUME),
        ("hostPath", Parts(&HOST_PATH, "")),
        ("image", Refused("images as volumes are not supported yet")),
        ("iscsi", NETWORK_VOLUME),
        ("name", OK),
        ("nfs", NETWORK_VOLUME),
        ("persistentVolumeClaim", API_VOLUME),
        ("photonPersistentDisk", OLD_VOLUME),
        ("portworxVolume", OLD_VOLUME),
        ("projected", Parts(&PROJECTED, "")),
        ("quobyte", OLD_VOLUME),
        ("rbd", OLD_VOLUME),
        ("scaleIO", OLD_VOLUME),
        ("secret", Parts(&SECRET, "from the same path or URL as the pod")),
        ("storageos", OLD_VOLUME),
        ("vsphereVolume", OLD_VOLUME),
    ],
};

static ENV_VAR: Type = Type {
    name: "EnvVar",
    fields: &[("name", OK), ("value", OK), ("valueFrom", Parts(&ENV_VAR_SOURCE, ""))],
};

static ENV_VAR_SOURCE: Type = Type {
    name: "EnvVarSource",
    fields: &[
        ("configMapKeyRef", Parts(&CONFIG_MAP_KEY, "")),
        ("fieldRef", Parts(&FIELD, "")),
        ("fileKeyRef", Refused("mount the file or use a config map")),
        ("resourceFieldRef", Parts(&RESOURCE_FIELD, "")),
        ("secretKeyRef", Parts(&SECRET_KEY, "")),
    ],
};

static ENV_FROM: Type = Type {
    name: "EnvFromSource",
    fields: &[
        ("configMapRef", Parts(&CONFIG_MAP_ENV, "")),
        ("prefix", OK),
        ("secretRef", Parts(&SECRET_ENV, "")),
    ],
};

static CONFIG_MAP_ENV: Type = Type { name: "ConfigMapEnvSource", fields: &[("name", OK), ("optional", OK)] };
static SECRET_ENV: Type = Type { name: "SecretEnvSource", fields: &[("name", OK), ("optional", OK)] };
static CONFIG_MAP_KEY: Type =
    Type { name: "ConfigMapKeySelector", fields: &[("key", OK), ("name", OK), ("optional", OK)] };
static SECRET_KEY: Type =
    Type { name: "SecretKeySelector", fields: &[("key", OK), ("name", OK), ("optional", OK)] };

static FIELD: Type = Type {
    name: "ObjectFieldSelector",
    fields: &[("apiVersion", Works("only `v1`; others are refused")), ("fieldPath", OK)],
};

static RESOURCE_FIELD: Type = Type {
    name: "ResourceFieldSelector",
    fields: &[
        ("containerName", OK),
        ("divisor", OK),
        ("resource", Works("an unset limit is the node's allocatable amount")),
    ],
};

static LIFECYCLE: Type = Type {
    name: "Lifecycle",
    fields: &[
        ("postStart", Parts(&LIFECYCLE_HANDLER, "")),
        ("preStop", Parts(&LIFECYCLE_HANDLER, "")),
        (
            "stopSignal",
            Works(
                "if the runtime supports it, as the embedded one and containerd 2.3 do; otherwise it is ignored, and \
                 an event says so; the status does not show it, as with a kubelet whose gate ContainerStopSignals is \
                 off (the default)",
            ),
        ),
    ],
};

static LIFECYCLE_HANDLER: Type = Type {
    name: "LifecycleHandler",
    fields: &[
        ("exec", Parts(&EXEC, "")),
        ("httpGet", Parts(&HTTP_GET, "")),
        ("sleep", Parts(&SLEEP, "")),
        (
            "tcpSocket",
            Refused(
                "Kubernetes accepts it, but every such hook fails when it runs; use exec, httpGet or sleep",
            ),
        ),
    ],
};

static PROBE: Type = Type {
    name: "Probe",
    fields: &[
        ("exec", Parts(&EXEC, "")),
        ("failureThreshold", OK),
        ("grpc", Parts(&GRPC, "")),
        ("httpGet", Parts(&HTTP_GET, "")),
        ("initialDelaySeconds", OK),
        ("periodSeconds", OK),
        ("successThreshold", OK),
        ("tcpSocket", Parts(&TCP_SOCKET, "")),
        ("terminationGracePeriodSeconds", OK),
        ("timeoutSeconds", OK),
    ],
};

static GRPC: Type = Type { name: "GRPCAction", fields: &[("port", OK), ("service", OK)] };
static TCP_SOCKET: Type = Type { name: "TCPSocketAction", fields: &[("host", OK), ("port", OK)] };
static EXEC: Type = Type { name: "ExecAction", fields: &[("command", OK)] };
static SLEEP: Type = Type { name: "SleepAction", fields: &[("seconds", OK)] };

static HTTP_GET: Type = Type {
    name: "HTTPGetAction",
    fields: &[
        ("host", OK),
        ("httpHeaders", Parts(&HTTP_HEADER, "")),
        ("path", OK),
        ("port", OK),
        ("scheme", Works("`HTTPS` without verifying the certificate")),
    ],
};

static HTTP_HEADER: Type = Type { name: "HTTPHeader", fields: &[("name", OK), ("value", OK)] };

static PORT: Type = Type {
    name: "ContainerPort",
    fields: &[
        ("containerPort", OK),
        ("hostIP", OK),
        (
            "hostPort",
            Works(
                "outside the host's network, the runtime's CNI plugins map it, but not for init containers and \
                 sidecars",
            ),
        ),
        ("name", OK),
        ("protocol", OK),
    ],
};

static RESOURCES: Type = Type {
    name: "ResourceRequirements",
    fields: &[
        ("claims", Refused("resource claims need the API server")),
        (
            "limits",
            Works("devices (`example.com/gpu`) and `ephemeral-storage` limits are ignored, with a warning"),
        ),
        ("requests", Works("devices are ignored, with a warning")),
    ],
};

static RESTART_RULE: Type = Type {
    name: "ContainerRestartRule",
    fields: &[("action", OK), ("exitCodes", Parts(&RESTART_EXIT_CODES, ""))],
};

static RESTART_EXIT_CODES: Type =
    Type { name: "ContainerRestartRuleOnExitCodes", fields: &[("operator", OK), ("values", OK)] };

const RESIZE_NOTE: &str = "in a pod with `metadata.uid`; without one, changed resources make a new pod";

static RESIZE_POLICY: Type =
    Type { name: "ContainerResizePolicy", fields: &[("resourceName", OK), ("restartPolicy", OK)] };

static CAPABILITIES: Type = Type { name: "Capabilities", fields: &[("add", OK), ("drop", OK)] };

static SELINUX: Type =
    Type { name: "SELinuxOptions", fields: &[("level", OK), ("role", OK), ("type", OK), ("user", OK)] };

static SECCOMP: Type = Type { name: "SeccompProfile", fields: &[("localhostProfile", OK), ("type", OK)] };

static SYSCTL: Type = Type { name: "Sysctl", fields: &[("name", OK), ("value", OK)] };

static HOST_ALIAS: Type = Type { name: "HostAlias", fields: &[("hostnames", OK), ("ip", OK)] };

static LOCAL_OBJECT: Type = Type { name: "LocalObjectReference", fields: &[("name", OK)] };

static DNS_CONFIG: Type = Type {
    name: "PodDNSConfig",
    fields: &[("nameservers", OK), ("options", Parts(&DNS_OPTION, "")), ("searches", OK)],
};

static DNS_OPTION: Type = Type { name: "PodDNSConfigOption", fields: &[("name", OK), ("value", OK)] };

static READINESS_GATE: Type = Type { name: "PodReadinessGate", fields: &[("conditionType", OK)] };

static POD_OS: Type = Type { name: "PodOS", fields: &[("name", OK)] };

static EMPTY_DIR: Type = Type {
    name: "EmptyDirVolumeSource",
    fields: &[
        ("medium", OK),
        (
            "sizeLimit",
            Works(
                "with `medium: Memory`; otherwise ignored, with a warning: a kubelet does not evict static pods for \
                 it either",
            ),
        ),
    ],
};

static HOST_PATH: Type = Type { name: "HostPathVolumeSource", fields: &[("path", OK), ("type", OK)] };

static CONFIG_MAP: Type = Type {
    name: "ConfigMapVolumeSource",
    fields: &[("defaultMode", OK), ("items", Parts(&KEY_TO_PATH, "")), ("name", OK), ("optional", OK)],
};

static SECRET: Type = Type {
    name: "SecretVolumeSource",
    fields: &[("defaultMode", OK), ("items", Parts(&KEY_TO_PATH, "")), ("optional", OK), ("secretName", OK)],
};

static KEY_TO_PATH: Type = Type { name: "KeyToPath", fields: &[("key", OK), ("mode", OK), ("path", OK)] };

static DOWNWARD: Type = Type {
    name: "DownwardAPIVolumeSource",
    fields: &[("defaultMode", OK), ("items", Parts(&DOWNWARD_FILE, ""))],
};

static DOWNWARD_FILE: Type = Type {
    name: "DownwardAPIVolumeFile",
    fields: &[
        ("fieldRef", Parts(&FIELD, "")),
        ("mode", OK),
        ("path", OK),
        ("resourceFieldRef", Parts(&RESOURCE_FIELD, "")),
    ],
};

static PROJECTED: Type = Type {
    name: "ProjectedVolumeSource",
    fields: &[("defaultMode", OK), ("sources", Parts(&PROJECTION, ""))],
};

static PROJECTION: Type = Type {
    name: "VolumeProjection",
    fields: &[
        ("clusterTrustBundle", API_VOLUME),
        ("configMap", Parts(&PROJECTED_CONFIG_MAP, "")),
        ("downwardAPI", Parts(&PROJECTED_DOWNWARD, "")),
        ("podCertificate", API_VOLUME),
        ("secret", Parts(&PROJECTED_SECRET, "")),
        ("serviceAccountToken", API_VOLUME),
    ],
};

static PROJECTED_CONFIG_MAP: Type = Type {
    name: "ConfigMapProjection",
    fields: &[("items", Parts(&KEY_TO_PATH, "")), ("name", OK), ("optional", OK)],
};

static PROJECTED_SECRET: Type = Type {
    name: "SecretProjection",
    fields: &[("items", Parts(&KEY_TO_PATH, "")), ("name", OK), ("optional", OK)],
};

static PROJECTED_DOWNWARD: Type =
    Type { name: "DownwardAPIProjection", fields: &[("items", Parts(&DOWNWARD_FILE, ""))] };

static AFFINITY: Type = Type {
    name: "Affinity",
    fields: &[
        ("nodeAffinity", Parts(&NODE_AFFINITY, "")),
        ("podAffinity", SCHEDULING),
        ("podAntiAffinity", SCHEDULING),
    ],
};

static NODE_AFFINITY: Type = Type {
    name: "NodeAffinity",
    fields: &[
        ("preferredDuringSchedulingIgnoredDuringExecution", SCHEDULING),
        ("requiredDuringSchedulingIgnoredDuringExecution", Parts(&NODE_SELECTOR, "")),
    ],
};

static NODE_SELECTOR: Type =
    Type { name: "NodeSelector", fields: &[("nodeSelectorTerms", Parts(&NODE_SELECTOR_TERM, ""))] };

static NODE_SELECTOR_TERM: Type = Type {
    name: "NodeSelectorTerm",
    fields: &[
        ("matchExpressions", Parts(&NODE_SELECTOR_REQUIREMENT, "")),
        ("matchFields", Parts(&NODE_SELECTOR_REQUIREMENT, "")),
    ],
};

static NODE_SELECTOR_REQUIREMENT: Type =
    Type { name: "NodeSelectorRequirement", fields: &[("key", OK), ("operator", OK), ("values", OK)] };

static APP_ARMOR: Type = Type { name: "AppArmorProfile", fields: &[("localhostProfile", OK), ("type", OK)] };
