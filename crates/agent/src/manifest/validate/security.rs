//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, Pod, PodSecurityContext, PodSpec, SeccompProfile,
};

use super::names;
use super::report::{Path, Report};
use crate::pod::{all_containers, app_armor};

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// The maximum length of a path.
const LONGEST_APP_ARMOR_NAME: usize = 4095;

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
    check_app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);
    if context.windows_options.is_some() {
        report.forbidden(&path.field("windowsOptions"), "only for Windows");
    }
    let mut sysctls = BTreeSet::new();
    for (index, sysctl) in context.sysctls.iter().flatten().enumerate() {
        let path = path.field("sysctls").index(index).field("name");
        report.require(&path, &sysctl.name, sysctl_name);
        if !sysctls.insert(&sysctl.name) {
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
    check_app_armor(context.app_armor_profile.as_ref(), &path.field("appArmorProfile"), report);

    if context.windows_options.is_some() {
        report.forbidden(&path.field("windowsOptions"), "only for Windows");
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
        // The API server only knows it by this name; the other one gets a remark.
        if added.is_some_and(|added| added.iter().any(|capability| capability == "CAP_SYS_ADMIN")) {
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
        let localhost = profile.localhost_profile.as_deref();
        check_profile(&profile.type_, localhost, names::relative_path, path, report);
    }
}

fn check_app_armor(profile: Option<&AppArmorProfile>, path: &Path, report: &mut Report) {
    if let Some(profile) = profile {
        let localhost = profile.localhost_profile.as_deref();
        check_profile(&profile.type_, localhost, unpadded, path, report);
        if localhost.is_some_and(|name| name.len() > LONGEST_APP_ARMOR_NAME) {
            report.too_long(&path.field("localhostProfile"), LONGEST_APP_ARMOR_NAME, "bytes");
        }
    }
}

/// Checks profiles in annotations, where older manifests have them.
pub(super) fn check_annotations(pod: &Pod, report: &mut Report) {
    let path = Path::root("metadata").field("annotations");
    let containers: BTreeSet<&str> = all_containers(pod).map(|container| container.name.as_str()).collect();
    for (key, value) in pod.metadata.annotations.iter().flatten() {
        let Some(name) = key.strip_prefix(app_armor::ANNOTATION) else { continue };
        if !containers.contains(name) {
            report.invalid_text(&path.key(key), name, "container not found");
        }
        if let Err(detail) = app_armor::read(value) {
            report.invalid_text(&path.key(key), value, detail);
        }
    }
}

fn check_profile(
    kind: &str,
    localhost: Option<&str>,
    rule: fn(&str) -> Result<(), &'static str>,
    path: &Path,
    report: &mut Report,
) {
    let field = path.field("localhostProfile");
    match (kind, localhost.filter(|profile| !profile.is_empty())) {
        ("", _) => report.required(&path.field("type"), "type is required when a profile is set"),
        ("Localhost", None) => report.required(&field, "must be set when type is Localhost"),
        ("Localhost", profile) => report.check(&field, profile, rule),
        (kind, profile) => {
            report.one_of(&path.field("type"), Some(kind), PROFILE_TYPES);
            if let Some(profile) = profile {
                report.invalid_text(&field, profile, "can only be set when type is Localhost");
            }
        }
    }
}

/// An `AppArmor` profile may have any name; often it is the full path of the program that it confines.
fn unpadded(name: &str) -> Result<(), &'static str> {
    if name.trim() == name { Ok(()) } else { Err("must not be padded with whitespace") }
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
