//! Filters on system calls: from a profile to a program for the kernel.
//!
//! ```text
//! RuntimeDefault ──▶ default (our table) ──┐
//!                                          ├──▶ Policy ──▶ compile ──▶ Filter ──▶ seccomp.bpf in the container's folder
//! Localhost ──▶ profile (a JSON file) ─────┘                              loaded by: process::confine
//! ```
//! Except for reading the file, all of this is pure. It is done when a container is created: later changes of the file
//! apply to later containers, and starting the container or a command in it only loads bytes.

mod arch;
mod bpf;
mod compile;
mod default;
#[cfg(test)]
mod machine;
mod policy;
mod profile;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use rubelet_cri::v1;
use v1::security_profile::ProfileType;

use super::error::{Error, Result};
use arch::Arch;
pub(crate) use bpf::Filter;
use policy::Circumstances;

/// The compiled filter in a container's folder.
pub(crate) const FILE: &str = "seccomp.bpf";

const FIELD: &str = "linux.security_context.seccomp";

/// Returns the filter that a container asks for; `None` if it is unconfined, as every privileged one is.
pub(crate) fn filter(
    context: Option<&v1::LinuxContainerSecurityContext>,
    capabilities: &BTreeSet<String>,
) -> Result<Option<Filter>> {
    let wanted = Wanted::of(context)?;
    if wanted == Wanted::Unconfined {
        return Ok(None);
    }
    let host = Arch::host().ok_or_else(|| {
        Error::unsupported(
            FIELD,
            "filters are only supported on x86_64 and aarch64; use Unconfined on this machine",
        )
    })?;
    let circumstances = Circumstances { host, capabilities, kernel: kernel() };
    let policy = match wanted {
        Wanted::Unconfined => return Ok(None),
        Wanted::Default => default::policy(&circumstances),
        Wanted::File(path) => read(path, &circumstances).map_err(|problem| Error::invalid(FIELD, problem))?,
    };
    compile::compile(&policy).map(Some).map_err(|problem| Error::invalid(FIELD, problem.to_string()))
}

/// What a request asks for, in either of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted<'a> {
    Unconfined,
    Default,
    File(&'a Path),
}

impl<'a> Wanted<'a> {
    fn of(context: Option<&'a v1::LinuxContainerSecurityContext>) -> Result<Self> {
        let Some(context) = context.filter(|context| !context.privileged) else {
            return Ok(Self::Unconfined);
        };
        let path = match &context.seccomp {
            Some(profile) => match profile.profile_type() {
                ProfileType::Unconfined => return Ok(Self::Unconfined),
                ProfileType::RuntimeDefault => return Ok(Self::Default),
                ProfileType::Localhost => &profile.localhost_ref,
            },
            // The values of the deprecated field.
            None => match context.seccomp_profile_path.as_str() {
                "" | "unconfined" => return Ok(Self::Unconfined),
                "runtime/default" | "docker/default" => return Ok(Self::Default),
                other => other,
            },
        };
        let path = Path::new(path.strip_prefix("localhost/").unwrap_or(path));
        if path.is_absolute() {
            Ok(Self::File(path))
        } else {
            Err(Error::invalid(FIELD, format!("{path:?} is not an absolute path to a profile")))
        }
    }
}

/// Reads a profile. Errors name the file.
fn read(path: &Path, circumstances: &Circumstances<'_>) -> Result<policy::Policy, String> {
    let text = std::fs::read(path).map_err(|error| {
        format!("cannot read the profile {}: {error}; create the file, or name another", path.display())
    })?;
    let (policy, unknown) = profile::parse(&text, circumstances)
        .map_err(|problem| format!("the profile {} cannot be used: {problem}", path.display()))?;
    if !unknown.is_empty() {
        // Profiles are written for many machines and kernels: a call that is unknown here cannot be made here.
        tracing::warn!(profile = %path.display(), names = unknown.join(" "), "unknown system calls in a profile");
    }
    Ok(policy)
}

fn kernel() -> (u32, u32) {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
