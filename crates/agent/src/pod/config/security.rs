//! Who a container runs as, and what it may do.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};
use rubelet_cri::v1;

use super::container::ConfigError;
use crate::image::Resolved;
use crate::pod::spec;

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

fn of_pod(pod: &Pod) -> Option<&PodSecurityContext> {
    pod.spec.as_ref()?.security_context.as_ref()
}

/// Which namespaces the containers of a pod share with whom.
pub(super) fn namespaces(pod: &Pod) -> v1::NamespaceOption {
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
        ..v1::NamespaceOption::default()
    }
}

/// The security of a sandbox.
pub(super) fn of_sandbox(pod: &Pod) -> v1::LinuxSandboxSecurityContext {
    let context = of_pod(pod);
    let is_privileged = |container: &Container| {
        container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false)
    };
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        privileged: spec::all_containers(pod).any(is_privileged),
        seccomp: Some(profile(v1::security_profile::ProfileType::RuntimeDefault, "")),
        selinux_options: context.and_then(|context| context.se_linux_options.as_ref()).map(selinux),
        run_as_user: context.and_then(|context| context.run_as_user).map(number),
        run_as_group: context
            .filter(|context| context.run_as_user.is_some())
            .and_then(|context| context.run_as_group)
            .map(number),
        supplemental_groups: supplemental_groups(context),
        ..v1::LinuxSandboxSecurityContext::default()
    }
}

/// The security of a container: the pod's, overridden field by field by its own.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    image: &Resolved,
) -> Result<v1::LinuxContainerSecurityContext, ConfigError> {
    let (of_pod, own) = (of_pod(pod), container.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or_else(|| of_pod.and_then(|pod| pod.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or_else(|| of_pod.and_then(|pod| pod.run_as_group));
    refuse_root(pod, container, user, image)?;
    let of_image = || image.uid.or_else(|| image.username.is_empty().then_some(0));
    let is_unmasked = own.and_then(|own| own.proc_mount.as_deref()) == Some("Unmasked");
    let is_privileged = own.and_then(|own| own.privileged).unwrap_or(false);
    let hides = !is_unmasked && !is_privileged;
    let paths = |paths: &[&str]| {
        if hides { paths.iter().map(|path| (*path).to_owned()).collect() } else { Vec::new() }
    };
    let selinux_options = own.and_then(|own| own.se_linux_options.as_ref());
    Ok(v1::LinuxContainerSecurityContext {
        capabilities: own.and_then(|own| own.capabilities.as_ref()).map(capabilities),
        privileged: is_privileged,
        namespace_options: Some(namespaces(pod)),
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
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: Some(seccomp(own, of_pod)),
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
    let name = || container.name.clone();
    match (user, image.uid) {
        (Some(0), _) => Err(ConfigError::RunsAsRoot { container: name() }),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(ConfigError::ImageRunsAsRoot { container: name() }),
        (None, Some(_)) => Ok(()),
        (None, None) if image.username.is_empty() => Err(ConfigError::ImageRunsAsRoot { container: name() }),
        (None, None) => {
            Err(ConfigError::ImageUserIsAName { container: name(), user: image.username.clone() })
        }
    }
}

fn supplemental_groups(context: Option<&PodSecurityContext>) -> Vec<i64> {
    let Some(context) = context else { return Vec::new() };
    let groups = context.supplemental_groups.as_deref().unwrap_or_default();
    context.fs_group.into_iter().chain(groups.iter().copied()).collect()
}

fn seccomp(own: Option<&SecurityContext>, of_pod: Option<&PodSecurityContext>) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    let wanted: Option<&SeccompProfile> = own
        .and_then(|own| own.seccomp_profile.as_ref())
        .or_else(|| of_pod.and_then(|pod| pod.seccomp_profile.as_ref()));
    match wanted.map(|profile| profile.type_.as_str()) {
        Some("RuntimeDefault") => profile(ProfileType::RuntimeDefault, ""),
        Some("Localhost") => {
            let path = wanted.and_then(|profile| profile.localhost_profile.as_deref()).unwrap_or_default();
            profile(ProfileType::Localhost, path)
        }
        _ => profile(ProfileType::Unconfined, ""),
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
mod tests {
    use super::*;
    use crate::pod::testkit;

    fn image(uid: Option<i64>, username: &str) -> Resolved {
        Resolved { reference: "sha256:1".to_owned(), uid, username: username.to_owned() }
    }

    fn pod(of_pod: PodSecurityContext, own: SecurityContext) -> Pod {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        let spec = pod.spec.as_mut().unwrap();
        spec.security_context = Some(of_pod);
        spec.containers[0].security_context = Some(own);
        pod
    }

    #[test]
    fn users_come_from_the_container_then_the_pod_then_the_image() {
        let user = |user| SecurityContext { run_as_user: user, ..SecurityContext::default() };
        let pod_user = |user| PodSecurityContext { run_as_user: user, ..PodSecurityContext::default() };
        let table = [
            (Some(5), Some(7), image(Some(9), ""), Some(7), ""),
            (Some(5), None, image(Some(9), ""), Some(5), ""),
            (None, None, image(Some(9), ""), Some(9), ""),
            (None, None, image(None, "web"), None, "web"),
            (None, None, image(None, ""), Some(0), ""),
        ];
        for (of_pod, own, image, uid, username) in table {
            let pod = pod(pod_user(of_pod), user(own));
            let got = of_container(&pod, &spec::containers(&pod)[0], &image).unwrap();
            let got = (got.run_as_user.map(|user| user.value), got.run_as_username);
            assert_eq!(got, (uid, username.to_owned()), "{of_pod:?} {own:?} {image:?}");
        }
    }

    #[test]
    fn whoever_may_not_be_root_is_not() {
        let non_root = || PodSecurityContext { run_as_non_root: Some(true), ..PodSecurityContext::default() };
        let user = |user| SecurityContext { run_as_user: user, ..SecurityContext::default() };
        let table = [
            (Some(0), image(Some(9), ""), false),
            (Some(7), image(Some(0), ""), true),
            (None, image(Some(0), ""), false),
            (None, image(None, ""), false),
            (None, image(None, "web"), false),
            (None, image(Some(9), ""), true),
        ];
        for (own, image, is_fine) in table {
            let pod = pod(non_root(), user(own));
            let got = of_container(&pod, &spec::containers(&pod)[0], &image);
            assert_eq!(got.is_ok(), is_fine, "{own:?} {image:?} {got:?}");
        }
    }

    #[test]
    fn proc_is_masked_unless_asked_otherwise() {
        let own = |own: SecurityContext| {
            let pod = pod(PodSecurityContext::default(), own);
            of_container(&pod, &spec::containers(&pod)[0], &image(None, "")).unwrap()
        };
        assert_eq!(own(SecurityContext::default()).masked_paths.len(), MASKED.len());
        let unmasked =
            SecurityContext { proc_mount: Some("Unmasked".to_owned()), ..SecurityContext::default() };
        assert!(own(unmasked).masked_paths.is_empty());
        let privileged = SecurityContext { privileged: Some(true), ..SecurityContext::default() };
        assert!(own(privileged).readonly_paths.is_empty());
    }

    #[test]
    fn namespaces_are_those_that_the_pod_asks_for() {
        let mut pod = testkit::pod("Always", &[], &["c"]);
        let options = namespaces(&pod);
        assert_eq!(options.network(), v1::NamespaceMode::Node);
        assert_eq!((options.ipc(), options.pid()), (v1::NamespaceMode::Pod, v1::NamespaceMode::Container));
        let spec = pod.spec.as_mut().unwrap();
        spec.host_network = None;
        spec.share_process_namespace = Some(true);
        spec.host_ipc = Some(true);
        let options = namespaces(&pod);
        assert_eq!(options.network(), v1::NamespaceMode::Pod);
        assert_eq!((options.ipc(), options.pid()), (v1::NamespaceMode::Node, v1::NamespaceMode::Pod));
    }
}
