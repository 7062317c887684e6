//! Profiles and labels: honoured, not needed, or refused by name.

use rubelet_cri::v1;
use v1::security_profile::ProfileType;

use super::Input;
use crate::embedded::error::{Error, Result};

const FIELD: &str = "linux.security_context";

/// Refuses what cannot be enforced here.
pub(super) fn check(input: &Input<'_>) -> Result<()> {
    let Some(context) = input.security() else { return Ok(()) };
    let profile = context.seccomp.clone().unwrap_or_else(|| v1::SecurityProfile {
        profile_type: legacy_seccomp(&context.seccomp_profile_path) as i32,
        localhost_ref: String::new(),
    });
    if profile.profile_type() != ProfileType::Unconfined && !context.privileged {
        let problem = "system call filters are not available: use Unconfined";
        return Err(Error::unsupported(format!("{FIELD}.seccomp"), problem));
    }
    if let Some(apparmor) = &context.apparmor
        && apparmor.profile_type() == ProfileType::Localhost
        && !input.facts.apparmor
    {
        return Err(Error::unsupported(
            format!("{FIELD}.apparmor"),
            "AppArmor is not enabled on this machine",
        ));
    }
    if !context.apparmor_profile.is_empty()
        && context.apparmor_profile.starts_with("localhost/")
        && !input.facts.apparmor
    {
        return Err(Error::unsupported(
            format!("{FIELD}.apparmor_profile"),
            "AppArmor is not enabled on this machine",
        ));
    }
    if input.facts.selinux && context.selinux_options.is_some() {
        return Err(Error::unsupported(
            format!("{FIELD}.selinux_options"),
            "SELinux labels are not supported",
        ));
    }
    if context.privileged && !sandbox_is_privileged(input.sandbox) {
        return Err(Error::invalid(format!("{FIELD}.privileged"), "the pod's sandbox is not privileged"));
    }
    let user_namespace =
        context.namespace_options.as_ref().and_then(|options| options.userns_options.as_ref());
    if user_namespace.is_some_and(|options| options.mode() != v1::NamespaceMode::Node) {
        let problem = "user namespaces for pods are not supported";
        return Err(Error::unsupported(format!("{FIELD}.namespace_options.userns_options"), problem));
    }
    Ok(())
}

fn sandbox_is_privileged(sandbox: &v1::PodSandboxConfig) -> bool {
    let context = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.is_some_and(|context| context.privileged)
}

/// The deprecated path: empty and `unconfined` mean no filter.
fn legacy_seccomp(path: &str) -> ProfileType {
    match path {
        "" | "unconfined" => ProfileType::Unconfined,
        "runtime/default" | "docker/default" => ProfileType::RuntimeDefault,
        _ => ProfileType::Localhost,
    }
}

/// The `AppArmor` profile to run under, where the machine has `AppArmor` and the request names one.
pub(super) fn apparmor_profile(input: &Input<'_>) -> Option<String> {
    if !input.facts.apparmor || input.privileged() {
        return None;
    }
    let context = input.security()?;
    match &context.apparmor {
        Some(profile) if profile.profile_type() == ProfileType::Localhost => {
            Some(profile.localhost_ref.clone())
        }
        Some(_) => None,
        None => context.apparmor_profile.strip_prefix("localhost/").map(str::to_owned),
    }
}

const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Paths hidden from the container, and paths it may only read. None of it for a privileged one.
pub(super) fn hidden_paths(input: &Input<'_>) -> (Vec<String>, Vec<String>) {
    if input.privileged() {
        return (Vec::new(), Vec::new());
    }
    let or_default = |asked: Option<&Vec<String>>, usual: &[&str]| match asked {
        Some(asked) if !asked.is_empty() => asked.clone(),
        _ => usual.iter().map(|path| (*path).to_owned()).collect(),
    };
    let context = input.security();
    (
        or_default(context.map(|context| &context.masked_paths), &MASKED),
        or_default(context.map(|context| &context.readonly_paths), &READONLY),
    )
}
