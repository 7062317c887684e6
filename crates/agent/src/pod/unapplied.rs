//! Which changes of a manifest do not reach running containers. A pod with a UID of its own stays the same pod when its
//! manifest changes, and a container is replaced only if its name or image has changed, as under a kubelet. Any other
//! change should be reported.

use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use serde_json::Value;

use super::spec;

/// Fields of a pod that are read only for its sandbox, or at the start of a container.
const OF_POD: [&str; 13] = [
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostPID",
    "hostname",
    "hostnameOverride",
    "runtimeClassName",
    "securityContext",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
];

/// Fields of a container that are read only at its start.
const OF_CONTAINER: [&str; 12] = [
    "args",
    "command",
    "env",
    "envFrom",
    "ports",
    "securityContext",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "tty",
    "volumeMounts",
    "workingDir",
];

/// Returns the fields that have changed but take effect only when their containers, or the whole pod, restart.
pub(crate) fn unapplied(before: &Pod, after: &Pod) -> Vec<String> {
    // These replace the sandbox, and everything restarts.
    let sandbox = |pod: &Pod| (spec::uses_host_network(pod), spec::has_own_users(pod));
    if sandbox(before) != sandbox(after) {
        return Vec::new();
    }
    let (Some(before), Some(after)) = (&before.spec, &after.spec) else { return Vec::new() };
    let mut fields: Vec<String> =
        changed(before, after, &OF_POD).into_iter().map(|field| format!("spec.{field}")).collect();
    let volumes = |volumes: &Option<Vec<Volume>>| -> Vec<Value> {
        // The files of all other volumes are updated.
        let is_bound = |volume: &&Volume| volume.host_path.is_some() || volume.empty_dir.is_some();
        volumes.iter().flatten().filter(is_bound).filter_map(|one| serde_json::to_value(one).ok()).collect()
    };
    if volumes(&before.volumes) != volumes(&after.volumes) {
        fields.push("spec.volumes".to_owned());
    }
    let no_init = Vec::new();
    for (list, before, after) in [
        (
            "initContainers",
            before.init_containers.as_ref().unwrap_or(&no_init),
            after.init_containers.as_ref().unwrap_or(&no_init),
        ),
        ("containers", &before.containers, &after.containers),
    ] {
        for now in after {
            let is_same = |then: &&Container| then.name == now.name && then.image == now.image;
            let Some(then) = before.iter().find(is_same) else { continue };
            let changes = changed(then, now, &OF_CONTAINER);
            fields.extend(changes.into_iter().map(|field| format!("spec.{list}[{}].{field}", now.name)));
        }
    }
    fields
}

fn changed<'a, T: serde::Serialize>(before: &T, after: &T, fields: &[&'a str]) -> Vec<&'a str> {
    // API values have no keys that JSON lacks.
    let [before, after] = [before, after].map(|value| serde_json::to_value(value).unwrap_or_default());
    fields.iter().copied().filter(|field| before.get(field) != after.get(field)).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, HostPathVolumeSource, PodSpec};

    use super::*;
    use crate::pod::testkit;

    /// What changes, the fields that are named, and how.
    type Case = (&'static str, &'static [&'static str], fn(&mut PodSpec));

    fn volume(name: &str, path: Option<&str>) -> Volume {
        Volume {
            name: name.to_owned(),
            host_path: path.map(|path| HostPathVolumeSource { path: path.to_owned(), type_: None }),
            config_map: path.is_none().then(ConfigMapVolumeSource::default),
            ..Volume::default()
        }
    }

    #[test]
    fn what_only_a_start_reads_is_named() {
        let before = testkit::pod("Always", &["setup"], &["web"]);
        let table: [Case; 9] = [
            ("nothing", &[], |_| {}),
            ("its image, too", &[], |spec| {
                spec.containers[0].image = Some("other".to_owned());
                spec.containers[0].command = Some(Vec::new());
            }),
            ("another container", &[], |spec| spec.containers.push(Container::default())),
            ("what is followed", &[], |spec| {
                spec.termination_grace_period_seconds = Some(1);
                spec.volumes = Some(vec![volume("map", None)]);
            }),
            ("a container", &["spec.containers[web].command", "spec.containers[web].workingDir"], |spec| {
                spec.containers[0].command = Some(vec!["x".to_owned()]);
                spec.containers[0].working_dir = Some("/".to_owned());
            }),
            ("an init container", &["spec.initContainers[setup].tty"], |spec| {
                spec.init_containers.as_mut().unwrap()[0].tty = Some(true);
            }),
            ("the pod", &["spec.hostPID"], |spec| spec.host_pid = Some(true)),
            ("the sandbox", &[], |spec| {
                spec.host_network = (spec.host_network != Some(true)).then_some(true);
                spec.host_pid = Some(true);
            }),
            ("a volume", &["spec.volumes"], |spec| spec.volumes = Some(vec![volume("host", Some("/"))])),
        ];
        for (what, fields, change) in table {
            let mut after = before.clone();
            change(after.spec.as_mut().unwrap());
            assert_eq!(unapplied(&before, &after), fields, "{what}");
        }
    }
}
