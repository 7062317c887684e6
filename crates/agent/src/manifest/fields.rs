//! What becomes of each field of a pod: the one list from which both the remarks at load and `docs/pod-fields.md` come.
//! Nothing is ignored in silence, and a field that Kubernetes adds fails a test until it is listed here.

use super::Issue;
use super::tree::{Node, Value};

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does what it does under a kubelet; with a note, if there is something to say.
    Works(&'static str),
    /// A manifest that has it is not used, for this reason.
    Refused(&'static str),
    /// A manifest that has it is used without it, and a remark says this.
    Ignored(&'static str),
}

use Verdict::{Ignored, Refused, Works};

type Table = &'static [(&'static str, Verdict)];

const OK: Verdict = Works("");
const SCHEDULING: Verdict = Ignored("no scheduler chooses a node for this pod");
const PRIORITY: Verdict =
    Ignored("priorities are given by the API server, and a pod of a file is critical to its node");
const PROBE: Verdict = Works("see [probes.md](probes.md)");
const WINDOWS: Verdict = Refused("this is Linux");
const NO_SERVICE_ACCOUNTS: Verdict = Refused("service accounts live in the API server");
const APP_ARMOR: Verdict = Ignored("the runtime's own AppArmor profile stays in force");
const SECCOMP: Verdict =
    Works("on containerd and CRI-O; the embedded runtime refuses any profile but `Unconfined`, by name");
const API_VOLUME: Verdict = Refused("such volumes come from the API server");
const NETWORK_VOLUME: Verdict = Refused("mount it on the host, and use `hostPath`");
const OLD_VOLUME: Verdict = Refused("Kubernetes no longer has this type, or only through CSI drivers");

pub(super) const POD_SPEC: Table = &[
    ("activeDeadlineSeconds", OK),
    ("affinity", SCHEDULING),
    ("automountServiceAccountToken", Ignored("there are no service accounts, so there is no token")),
    ("containers", Works("at most 500")),
    ("dnsConfig", OK),
    ("dnsPolicy", Works("without a cluster DNS, `ClusterFirst` is as `Default`")),
    ("enableServiceLinks", Works("there are no services to link to")),
    ("ephemeralContainers", Refused("they are added to a running pod, through the API server")),
    ("hostAliases", OK),
    ("hostIPC", OK),
    ("hostNetwork", OK),
    ("hostPID", OK),
    ("hostUsers", Refused("if `false`: user namespaces are not supported yet")),
    ("hostname", OK),
    ("hostnameOverride", OK),
    ("imagePullSecrets", Ignored("images are pulled without credentials")),
    ("initContainers", Works("with sidecars (`restartPolicy: Always`); at most 500")),
    ("nodeName", Ignored("the pod runs on the node that has its manifest")),
    ("nodeSelector", SCHEDULING),
    ("os", Works("only `linux`; others are refused")),
    ("overhead", Ignored("it belongs to a runtime class, and there are none")),
    ("preemptionPolicy", PRIORITY),
    ("priority", Works("from 2000000000 on the pod is critical; a pod of a file is in any case")),
    ("priorityClassName", PRIORITY),
    ("readinessGates", Ignored("no controller sets such conditions here, so they do not count")),
    ("resourceClaims", Refused("resource claims live in the API server")),
    ("resources", OK),
    ("restartPolicy", OK),
    ("runtimeClassName", Refused("runtime classes live in the API server")),
    ("schedulerName", SCHEDULING),
    ("schedulingGates", Refused("nothing here could ever open a gate")),
    ("schedulingGroup", SCHEDULING),
    ("securityContext", Works("see below")),
    ("serviceAccount", NO_SERVICE_ACCOUNTS),
    ("serviceAccountName", NO_SERVICE_ACCOUNTS),
    ("setHostnameAsFQDN", Ignored("the host name of the pod is the short one")),
    ("shareProcessNamespace", OK),
    ("subdomain", Ignored("there is no cluster DNS that would have such a name")),
    ("terminationGracePeriodSeconds", OK),
    ("tolerations", Ignored("this node has no taints")),
    ("topologySpreadConstraints", SCHEDULING),
    ("volumes", Works("see below")),
];

pub(super) const CONTAINER: Table = &[
    ("args", OK),
    ("command", OK),
    ("env", Works("without `fileKeyRef`, which is refused")),
    ("envFrom", OK),
    ("image", OK),
    ("imagePullPolicy", OK),
    (
        "lifecycle",
        Works(
            "`stopSignal` where the runtime has it, as the embedded one and containerd 2.3; `tcpSocket` is refused",
        ),
    ),
    ("livenessProbe", PROBE),
    ("name", OK),
    ("ports", OK),
    ("readinessProbe", PROBE),
    ("resizePolicy", Ignored("other resources make another pod, which replaces this one")),
    ("resources", Works("`claims` are refused")),
    ("restartPolicy", OK),
    ("restartPolicyRules", OK),
    ("securityContext", Works("see below")),
    ("startupProbe", PROBE),
    ("stdin", OK),
    ("stdinOnce", OK),
    ("terminationMessagePath", OK),
    ("terminationMessagePolicy", OK),
    ("tty", Works("on containerd and CRI-O; the embedded runtime refuses it, by name")),
    ("volumeDevices", API_VOLUME),
    ("volumeMounts", Works("see below")),
    ("workingDir", OK),
];

pub(super) const POD_SECURITY_CONTEXT: Table = &[
    ("appArmorProfile", APP_ARMOR),
    ("fsGroup", OK),
    ("fsGroupChangePolicy", OK),
    ("runAsGroup", OK),
    ("runAsNonRoot", OK),
    ("runAsUser", OK),
    ("seLinuxChangePolicy", Ignored("volumes are relabelled by the runtime")),
    ("seLinuxOptions", OK),
    ("seccompProfile", SECCOMP),
    ("supplementalGroups", OK),
    ("supplementalGroupsPolicy", Ignored("groups of the image are merged")),
    ("sysctls", OK),
    ("windowsOptions", WINDOWS),
];

pub(super) const SECURITY_CONTEXT: Table = &[
    ("allowPrivilegeEscalation", OK),
    ("appArmorProfile", APP_ARMOR),
    ("capabilities", OK),
    ("privileged", OK),
    ("procMount", OK),
    ("readOnlyRootFilesystem", OK),
    ("runAsGroup", OK),
    ("runAsNonRoot", OK),
    ("runAsUser", OK),
    ("seLinuxOptions", OK),
    ("seccompProfile", SECCOMP),
    ("windowsOptions", WINDOWS),
];

pub(super) const VOLUME_MOUNT: Table = &[
    ("mountPath", OK),
    ("mountPropagation", OK),
    ("name", OK),
    ("readOnly", OK),
    ("recursiveReadOnly", OK),
    ("subPath", Works("in a volume of the agent's (`configMap` and the like) it must exist")),
    ("subPathExpr", OK),
];

pub(super) const VOLUME: Table = &[
    ("awsElasticBlockStore", OLD_VOLUME),
    ("azureDisk", OLD_VOLUME),
    ("azureFile", OLD_VOLUME),
    ("cephfs", OLD_VOLUME),
    ("cinder", OLD_VOLUME),
    ("configMap", Works("from the documents beside the pods")),
    ("csi", API_VOLUME),
    ("downwardAPI", OK),
    ("emptyDir", Works("`sizeLimit` only for `medium: Memory`; on disk it is ignored, with a warning")),
    ("ephemeral", API_VOLUME),
    ("fc", NETWORK_VOLUME),
    ("flexVolume", OLD_VOLUME),
    ("flocker", OLD_VOLUME),
    ("gcePersistentDisk", OLD_VOLUME),
    ("gitRepo", Refused("clone it in an init container")),
    ("glusterfs", OLD_VOLUME),
    ("hostPath", OK),
    ("image", Refused("images as volumes are not supported yet")),
    ("iscsi", NETWORK_VOLUME),
    ("name", OK),
    ("nfs", NETWORK_VOLUME),
    ("persistentVolumeClaim", API_VOLUME),
    ("photonPersistentDisk", OLD_VOLUME),
    ("portworxVolume", OLD_VOLUME),
    (
        "projected",
        Works("from config maps, secrets and the downward API; tokens and certificates are refused"),
    ),
    ("quobyte", OLD_VOLUME),
    ("rbd", OLD_VOLUME),
    ("scaleIO", OLD_VOLUME),
    ("secret", Works("from the documents beside the pods")),
    ("storageos", OLD_VOLUME),
    ("vsphereVolume", OLD_VOLUME),
];

/// What is ignored in a pod as its author wrote it, with lines.
pub(super) fn ignored(pod: &Node<'_>) -> Vec<(u32, Issue)> {
    let mut found = Vec::new();
    let Some(spec) = pod.get("spec") else { return found };
    note(spec, "spec", POD_SPEC, &mut found);
    if let Some(context) = spec.get("securityContext") {
        note(context, "spec.securityContext", POD_SECURITY_CONTEXT, &mut found);
    }
    for list in ["initContainers", "containers"] {
        for (path, container) in items(spec, "spec", list) {
            note(container, &path, CONTAINER, &mut found);
            if let Some(context) = container.get("securityContext") {
                note(context, &format!("{path}.securityContext"), SECURITY_CONTEXT, &mut found);
            }
            for (path, mount) in items(container, &path, "volumeMounts") {
                note(mount, &path, VOLUME_MOUNT, &mut found);
            }
        }
    }
    for (path, volume) in items(spec, "spec", "volumes") {
        note(volume, &path, VOLUME, &mut found);
        note_size_limit(volume, &path, &mut found);
    }
    found
}

fn items<'n, 'a>(node: &'n Node<'a>, path: &str, list: &str) -> impl Iterator<Item = (String, &'n Node<'a>)> {
    let items = match node.get(list).map(|node| &node.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().enumerate().map(move |(index, item)| (format!("{path}.{list}[{index}]"), item))
}

fn note_size_limit(volume: &Node<'_>, path: &str, found: &mut Vec<(u32, Issue)>) {
    let Some(folder) = volume.get("emptyDir") else { return };
    let on_disk = folder.get("medium").and_then(Node::text).is_none_or(str::is_empty);
    if let Some(limit) = folder.get("sizeLimit").filter(|_| on_disk) {
        let path = format!("{path}.emptyDir.sizeLimit");
        let what = "the size is limited only for medium: Memory";
        found.push((limit.line, Issue::IgnoredField { path, what }));
    }
}

fn note(node: &Node<'_>, path: &str, table: Table, found: &mut Vec<(u32, Issue)>) {
    let Value::Map(entries) = &node.value else { return };
    for (name, value) in entries {
        let Some((_, Ignored(what))) = table.iter().find(|(field, _)| field == name) else { continue };
        if asks_for_something(name, &value.value) {
            found.push((value.line, Issue::IgnoredField { path: format!("{path}.{name}"), what }));
        }
    }
}

/// Nothing is missed if the field says what happens anyway.
fn asks_for_something(name: &str, value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::List(items) => !items.is_empty(),
        Value::Map(entries) => !entries.is_empty(),
        Value::Text(text) if name == "schedulerName" => text != "default-scheduler",
        Value::Text(text) => !text.is_empty(),
        Value::Bool(true) | Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) => true,
    }
}

#[cfg(test)]
mod tests;
