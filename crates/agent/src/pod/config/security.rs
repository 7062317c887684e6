//! The users that a container runs as, and what it may do.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile,
    SecurityContext,
};
use rubelet_cri::v1;

use super::container::ConfigError;
use crate::image::Resolved;
use crate::pod::app_armor::effective_app_armor;
use crate::pod::spec;
use crate::user_ids::IdRange;

/// Hidden from containers, unless they ask for an unmasked `/proc`.
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What the node adds to what pods ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecuritySettings {
    /// The folder of the seccomp profiles that pods refer to by name.
    pub seccomp_folder: PathBuf,
    /// Whether containers that ask for no seccomp profile get the runtime's default.
    pub seccomp_default: bool,
    /// Paths hidden from containers on this machine, in addition to those that are hidden everywhere.
    pub hidden_paths: Vec<String>,
    /// Whether the kernel has `SELinux`: without it, labels have no effect.
    pub selinux: bool,
}

/// Whether anything in a pod asks for an `SELinux` label.
pub(crate) fn asks_for_selinux(pod: &Pod) -> bool {
    let of_container = |container: &Container| {
        container.security_context.as_ref().is_some_and(|context| context.se_linux_options.is_some())
    };
    of_pod(pod).is_some_and(|context| context.se_linux_options.is_some())
        || spec::all_containers(pod).any(of_container)
}

fn of_pod(pod: &Pod) -> Option<&PodSecurityContext> {
    pod.spec.as_ref()?.security_context.as_ref()
}

/// Returns which namespaces the containers of a pod share, and with what.
pub(super) fn namespaces(pod: &Pod, users: Option<IdRange>) -> v1::NamespaceOption {
    let spec = pod.spec.as_ref();
    let is_set = |value: Option<bool>| value.unwrap_or(false);
    let node_or_pod = |is_node| if is_node { v1::NamespaceMode::Node } else { v1::NamespaceMode::Pod };
    let pid = match spec {
        Some(spec) if is_set(spec.host_pid) => v1::NamespaceMode::Node,
        Some(spec) if is_set(spec.share_process_namespace) => v1::NamespaceMode::Pod,
        _ => v1::NamespaceMode::Container,
    };
    v1::NamespaceOption {
        network: node_or_pod(spec::uses_host_network(pod)).into(),
        ipc: node_or_pod(spec.is_some_and(|spec| is_set(spec.host_ipc))).into(),
        pid: pid.into(),
        userns_options: Some(v1::UserNamespace {
            mode: node_or_pod(users.is_none()).into(),
            uids: users.map(id_mapping).into_iter().collect(),
            gids: users.map(id_mapping).into_iter().collect(),
        }),
        ..v1::NamespaceOption::default()
    }
}

/// Maps root of the pod to the first of its ids on the host.
pub(super) fn id_mapping(users: IdRange) -> v1::IdMapping {
    v1::IdMapping { host_id: users.first, container_id: 0, length: users.length }
}

/// Returns the security settings of a sandbox.
pub(super) fn of_sandbox(pod: &Pod, users: Option<IdRange>) -> v1::LinuxSandboxSecurityContext {
    let context = of_pod(pod);
    let is_privileged = |container: &Container| {
        container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false)
    };
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod, users)),
        privileged: spec::all_containers(pod).any(is_privileged),
        seccomp: Some(profile(v1::security_profile::ProfileType::RuntimeDefault, "")),
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux),
        run_as_user: context.and_then(|context| context.run_as_user).map(number),
        run_as_group: context
            .filter(|context| context.run_as_user.is_some())
            .and_then(|context| context.run_as_group)
            .map(number),
        supplemental_groups: supplemental_groups(context),
        supplemental_groups_policy: groups_policy(context).into(),
        apparmor: context.and_then(|context| context.app_armor_profile.as_ref()).map(app_armor),
        ..v1::LinuxSandboxSecurityContext::default()
    }
}

/// Returns the security settings of a container: the pod's, overridden field by field by its own.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    image: &Resolved,
    settings: &SecuritySettings,
    users: Option<IdRange>,
) -> Result<v1::LinuxContainerSecurityContext, ConfigError> {
    let (of_pod, own) = (of_pod(pod), container.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|pod| pod.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|pod| pod.run_as_group));
    refuse_root(pod, container, user, image)?;
    let of_image = || image.uid.or_else(|| image.username.is_empty().then_some(0));
    let is_unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let is_privileged = own.and_then(|own| own.privileged).unwrap_or(false);
    let hides = !is_unmasked && !is_privileged;
    let paths = |paths: &[&str], more: &[String]| -> Vec<String> {
        let all = paths.iter().map(|path| (*path).to_owned()).chain(more.iter().cloned());
        if hides { all.collect() } else { Vec::new() }
    };
    let app_armor_profile = effective_app_armor(pod, container);
    let selinux_options = own.and_then(|own| own.se_linux_options.as_ref());
    Ok(v1::LinuxContainerSecurityContext {
        capabilities: own.and_then(|own| own.capabilities.as_ref()).map(capabilities),
        privileged: is_privileged,
        namespace_options: Some(namespaces(pod, users)),
        selinux_options: selinux_options
            .or_else(|| of_pod.and_then(|pod| pod.se_linux_options.as_ref()))
            .map(selinux),
        run_as_user: user.or_else(of_image).map(number),
        run_as_group: group.map(number),
        run_as_username: if user.is_none() && image.uid.is_none() {
            image.username.clone()
        } else {
            String::new()
        },
        readonly_rootfs: own.and_then(|own| own.read_only_root_filesystem).unwrap_or(false),
        supplemental_groups: supplemental_groups(of_pod),
        no_new_privs: own.and_then(|own| own.allow_privilege_escalation) == Some(false),
        supplemental_groups_policy: groups_policy(of_pod).into(),
        masked_paths: paths(&MASKED, &settings.hidden_paths),
        readonly_paths: paths(&READ_ONLY, &[]),
        seccomp: Some(seccomp(own, of_pod, settings)),
        apparmor: app_armor_profile.as_deref().map(app_armor),
        // Older runtimes know only this field.
        apparmor_profile: app_armor_profile.as_deref().map(deprecated_app_armor).unwrap_or_default(),
        ..v1::LinuxContainerSecurityContext::default()
    })
}

fn refuse_root(
    pod: &Pod,
    container: &Container,
    user: Option<i64>,
    image: &Resolved,
) -> Result<(), ConfigError> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_non_root);
    let refuses = own.or_else(|| of_pod(pod).and_then(|pod| pod.run_as_non_root)).unwrap_or(false);
    if !refuses {
        return Ok(());
    }
    let who = || format!("pod: \"{}\", container: {}", spec::Described(pod), container.name);
    match (user, image.uid) {
        (Some(0), _) => Err(ConfigError::RunsAsRoot { who: who() }),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(ConfigError::ImageRunsAsRoot { who: who() }),
        (None, Some(_)) => Ok(()),
        (None, None) if image.username.is_empty() => Err(ConfigError::ImageRunsAsRoot { who: who() }),
        (None, None) => Err(ConfigError::ImageUserIsAName { who: who(), user: image.username.clone() }),
    }
}

fn supplemental_groups(context: Option<&PodSecurityContext>) -> Vec<i64> {
    let Some(context) = context else { return Vec::new() };
    let groups = context.supplemental_groups.as_deref().unwrap_or_default();
    context.fs_group.into_iter().chain(groups.iter().copied()).collect()
}

fn groups_policy(context: Option<&PodSecurityContext>) -> v1::SupplementalGroupsPolicy {
    match context.and_then(|context| context.supplemental_groups_policy.as_deref()) {
        Some("Strict") => v1::SupplementalGroupsPolicy::Strict,
        _ => v1::SupplementalGroupsPolicy::Merge,
    }
}

fn seccomp(
    own: Option<&SecurityContext>,
    of_pod: Option<&PodSecurityContext>,
    settings: &SecuritySettings,
) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    let wanted: Option<&SeccompProfile> = own
        .and_then(|own| own.seccomp_profile.as_ref())
        .or_else(|| of_pod.and_then(|pod| pod.seccomp_profile.as_ref()));
    match wanted.map(|profile| profile.type_.as_str()) {
        None if settings.seccomp_default => profile(ProfileType::RuntimeDefault, ""),
        Some("RuntimeDefault") => profile(ProfileType::RuntimeDefault, ""),
        Some("Localhost") => {
            let name = wanted.and_then(|profile| profile.localhost_profile.as_deref()).unwrap_or_default();
            profile(ProfileType::Localhost, &settings.seccomp_folder.join(name).to_string_lossy())
        }
        _ => profile(ProfileType::Unconfined, ""),
    }
}

fn app_armor(wanted: &AppArmorProfile) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    match wanted.type_.as_str() {
        "Localhost" => {
            profile(ProfileType::Localhost, wanted.localhost_profile.as_deref().unwrap_or_default())
        }
        "Unconfined" => profile(ProfileType::Unconfined, ""),
        _ => profile(ProfileType::RuntimeDefault, ""),
    }
}

fn deprecated_app_armor(wanted: &AppArmorProfile) -> String {
    match wanted.type_.as_str() {
        "Localhost" => format!("localhost/{}", wanted.localhost_profile.as_deref().unwrap_or_default()),
        "Unconfined" => "unconfined".to_owned(),
        _ => "runtime/default".to_owned(),
    }
}

fn profile(kind: v1::security_profile::ProfileType, localhost: &str) -> v1::SecurityProfile {
    v1::SecurityProfile { profile_type: kind.into(), localhost_ref: localhost.to_owned() }
}

fn capabilities(wanted: &Capabilities) -> v1::Capability {
    v1::Capability {
        add_capabilities: wanted.add.clone().unwrap_or_default(),
        drop_capabilities: wanted.drop.clone().unwrap_or_default(),
        ..v1::Capability::default()
    }
}

fn selinux(options: &SELinuxOptions) -> v1::SeLinuxOption {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    v1::SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        r#type: text(&options.type_),
        level: text(&options.level),
    }
}

fn number(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

#[cfg(test)]
mod tests;
