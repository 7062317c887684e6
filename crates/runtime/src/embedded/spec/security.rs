//! Profiles and labels: applied, ignored if not needed, or rejected by name.

use rubelet_cri::v1;
use v1::security_profile::ProfileType;

use super::Input;
use crate::embedded::cgroup::Cgroups;
use crate::embedded::error::{Error, Result};

const FIELD: &str = "linux.security_context";

/// Rejects what cannot be enforced here.
pub(super) fn check(input: &Input<'_>) -> Result<()> {
    let Some(context) = input.security() else { return Ok(()) };
    check_apparmor(context, input.facts.apparmor)?;
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

/// Whether a label is requested for the container or its pod, on a machine with `SELinux`.
pub(super) fn asks_for_label(input: &Input<'_>) -> bool {
    let of_sandbox = input.sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let of_sandbox = of_sandbox.and_then(|context| context.selinux_options.as_ref());
    let own = input.security().and_then(|context| context.selinux_options.as_ref());
    input.facts.selinux && own.or(of_sandbox).is_some()
}

fn sandbox_is_privileged(sandbox: &v1::PodSandboxConfig) -> bool {
    let context = sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.is_some_and(|context| context.privileged)
}

/// What a request asks for concerning `AppArmor`, in either of its fields.
enum AppArmor<'a> {
    Unconfined,
    RuntimeDefault,
    Localhost(&'a str),
    /// An invalid value of the deprecated field.
    Unreadable,
}

impl<'a> AppArmor<'a> {
    fn of(context: &'a v1::LinuxContainerSecurityContext) -> (&'static str, Self) {
        let Some(profile) = &context.apparmor else {
            let old = match context.apparmor_profile.as_str() {
                "" | "unconfined" => Self::Unconfined,
                "runtime/default" => Self::RuntimeDefault,
                other => other.strip_prefix("localhost/").map_or(Self::Unreadable, Self::Localhost),
            };
            return ("apparmor_profile", old);
        };
        let new = match profile.profile_type() {
            ProfileType::Unconfined => Self::Unconfined,
            ProfileType::RuntimeDefault => Self::RuntimeDefault,
            ProfileType::Localhost => Self::Localhost(&profile.localhost_ref),
        };
        ("apparmor", new)
    }
}

fn check_apparmor(context: &v1::LinuxContainerSecurityContext, is_enabled: bool) -> Result<()> {
    let (field, wanted) = AppArmor::of(context);
    let problem = match wanted {
        AppArmor::Unconfined => return Ok(()),
        AppArmor::Unreadable => "must be unconfined, runtime/default or localhost/NAME",
        AppArmor::RuntimeDefault | AppArmor::Localhost(_) if !is_enabled => {
            "AppArmor is not enabled on this machine"
        }
        AppArmor::RuntimeDefault => {
            "this runtime has no default profile: use Unconfined, or Localhost with a loaded profile"
        }
        AppArmor::Localhost("") => "Localhost needs a profile name",
        AppArmor::Localhost(_) => return Ok(()),
    };
    Err(Error::unsupported(format!("{FIELD}.{field}"), problem))
}

/// Returns the `AppArmor` profile to run under, if the request names one. It applies to a privileged container as well,
/// since it was requested.
pub(super) fn apparmor_profile(input: &Input<'_>) -> Option<String> {
    match AppArmor::of(input.security()?).1 {
        AppArmor::Localhost(name) => Some(name.to_owned()),
        AppArmor::Unconfined | AppArmor::RuntimeDefault | AppArmor::Unreadable => None,
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

/// Returns the paths that are hidden from the container, and those that are read-only. A privileged one has neither.
pub(super) fn hidden_paths(input: &Input<'_>) -> (Vec<String>, Vec<String>) {
    if input.privileged() {
        return (Vec::new(), Vec::new());
    }
    let or_default = |asked: Option<&Vec<String>>, usual: &[&str]| match asked {
        Some(asked) if !asked.is_empty() => asked.clone(),
        _ => usual.iter().map(|path| (*path).to_owned()).collect(),
    };
    let context = input.security();
    let masked = or_default(context.map(|context| &context.masked_paths), &MASKED);
    let mut readonly = or_default(context.map(|context| &context.readonly_paths), &READONLY);
    // The folder that contains the mounted hierarchies must be writable until all of them are mounted.
    if let Cgroups::V1(_) = input.facts.cgroups {
        readonly.push(super::mounts::CGROUPS.to_owned());
    }
    (masked, readonly)
}
