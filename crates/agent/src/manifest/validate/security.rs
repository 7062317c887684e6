//! Security contexts of pods and containers.

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, PodSecurityContext, PodSpec, SeccompProfile};

use super::names;
use super::report::{Path, Report};

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

pub(super) fn check_pod(spec: &PodSpec, path: &Path, report: &mut Report) {
    if let Some(context) = &spec.security_context {
        check_pod_context(context, &path.field("securityContext"), report);
    }
    if spec.host_pid == Some(true) && spec.share_process_namespace == Some(true) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.invalid(&path.field("shareProcessNamespace"), true, detail);
    }
    if spec.host_users == Some(false) {
        for (field, on) in
            [("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc), ("hostNetwork", spec.host_network)]
        {
            if on == Some(true) {
                report.forbidden(&path.field(field), "when `hostUsers` is false");
            }
        }
    }
}

fn check_pod_context(context: &PodSecurityContext, path: &Path, report: &mut Report) {
    id(context.run_as_user, &path.field("runAsUser"), report);
    id(context.run_as_group, &path.field("runAsGroup"), report);
    id(context.fs_group, &path.field("fsGroup"), report);
    for (index, group) in context.supplemental_groups.iter().flatten().enumerate() {
        id(Some(*group), &path.field("supplementalGroups").index(index), report);
    }
    let policy = context.fs_group_change_policy.as_deref();
    report.one_of(&path.field("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    let policy = context.supplemental_groups_policy.as_deref();
    report.one_of(&path.field("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    seccomp(context.seccomp_profile.as_ref(), &path.field("seccompProfile"), report);
    app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);
    if context.windows_options.is_some() {
        report.forbidden(&path.field("windowsOptions"), "this is Linux");
    }
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = path.field("sysctls").index(index).field("name");
        report.require(&path, &sysctl.name, sysctl_name);
        let same = |other: &&k8s_openapi::api::core::v1::Sysctl| other.name == sysctl.name;
        if context.sysctls.iter().flatten().take(index).any(|other| same(&other)) {
            report.duplicate(&path, &sysctl.name);
        }
    }
}

pub(super) fn check_container(spec: &PodSpec, container: &Container, path: &Path, report: &mut Report) {
    let Some(context) = &container.security_context else { return };
    id(context.run_as_user, &path.field("runAsUser"), report);
    id(context.run_as_group, &path.field("runAsGroup"), report);
    report.one_of(&path.field("procMount"), context.proc_mount.as_deref(), &["Default", "Unmasked"]);
    if context.proc_mount.as_deref() == Some("Unmasked") && spec.host_users != Some(false) {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        report.invalid_text(&path.field("procMount"), "Unmasked", detail);
    }
    seccomp(context.seccomp_profile.as_ref(), &path.field("seccompProfile"), report);
    app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);

    if context.windows_options.is_some() {
        report.forbidden(&path.field("windowsOptions"), "this is Linux");
    }
    if context.allow_privilege_escalation == Some(false) {
        if context.privileged == Some(true) {
            report.invalid(
                path,
                "{}",
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        let added = context.capabilities.as_ref().and_then(|capabilities| capabilities.add.as_ref());
        if added.is_some_and(|added| {
            added.iter().any(|capability| matches!(capability.as_str(), "SYS_ADMIN" | "CAP_SYS_ADMIN"))
        }) {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            report.invalid(path, "{}", detail);
        }
    }
}

fn id(id: Option<i64>, path: &Path, report: &mut Report) {
    if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        report.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

fn seccomp(profile: Option<&SeccompProfile>, path: &Path, report: &mut Report) {
    if let Some(profile) = profile {
        check_profile(&profile.type_, profile.localhost_profile.as_deref(), path, report);
    }
}

fn app_armor(profile: Option<&AppArmorProfile>, path: &Path, report: &mut Report) {
    if let Some(profile) = profile {
        check_profile(&profile.type_, profile.localhost_profile.as_deref(), path, report);
    }
}

fn check_profile(kind: &str, localhost: Option<&str>, path: &Path, report: &mut Report) {
    let field = path.field("localhostProfile");
    match (kind, localhost.filter(|profile| !profile.is_empty())) {
        ("", _) => report.required(&path.field("type"), "type is required when a profile is set"),
        ("Localhost", None) => report.required(&field, "must be set when type is Localhost"),
        ("Localhost", profile) => report.check(&field, profile, names::relative_path),
        (kind, profile) => {
            report.one_of(&path.field("type"), Some(kind), PROFILE_TYPES);
            if let Some(profile) = profile {
                report.invalid_text(&field, profile, "can only be set when type is Localhost");
            }
        }
    }
}

fn sysctl_name(name: &str) -> Result<(), &'static str> {
    let part = |part: &str| {
        let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(ends)
            && part.ends_with(ends)
            && part.chars().all(|c| ends(c) || matches!(c, '-' | '_'))
    };
    if name.len() > 253 || !name.split(['.', '/']).all(part) {
        return Err(
            "must have at most 253 characters and parts of lower case alphanumeric characters, '-' or '_', separated by '.' or '/'",
        );
    }
    Ok(())
}
