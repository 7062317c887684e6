//! What a runtime needs on this machine, what of it is absent, and whether that is a skip or a failure.
//!
//! An absent runtime lets a test be skipped, and says so. It is a failure
//! - where `CI` is set, for all that `cargo xtask test` can install, which is everything but Go itself;
//! - where `RUBELET_REQUIRE_RUNTIMES=1`, for everything.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Containerd, Flavor, elf, go_cache, program};

pub(crate) const CNI_BIN_DIR: &str = "/usr/lib/cni";
pub(crate) const BUSYBOX_BINARY: &str = "/bin/busybox";
const CNI_PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
const DEBIAN_CONTAINERD_BIN_DIR: &str = "/usr/bin";

/// One thing a runtime needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Containers, mounts and networks need it.
    #[error("not running as root")]
    Root,
    /// A program of a Debian package.
    #[error("no {name} (Debian package {package})")]
    Program {
        /// The program's name, or its path where only that path will do.
        name: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// The busybox of the images must run with nothing beside it.
    #[error("{BUSYBOX_BINARY} is not statically linked (Debian package busybox-static)")]
    StaticBusybox,
    /// The system's containerd is of another generation than the test wants.
    #[error("the system's containerd is {found:?}, not 1.6")]
    ContainerdVersion {
        /// What `containerd --version` says.
        found: String,
    },
    /// Not built yet.
    #[error("no {name} {version} built by Go in {bin_dir}{}", if *.go_is_present { "" } else { ", and no Go to build it" })]
    GoTool {
        /// The tool's name.
        name: &'static str,
        /// The version tests want.
        version: &'static str,
        /// Where it should be.
        bin_dir: String,
        /// Whether `cargo xtask test` could build it.
        go_is_present: bool,
    },
}

impl Missing {
    /// The Debian package that would mend it.
    pub fn package(&self) -> Option<&'static str> {
        match self {
            Self::Program { package, .. } => Some(package),
            Self::StaticBusybox => Some("busybox-static"),
            Self::Root | Self::ContainerdVersion { .. } | Self::GoTool { .. } => None,
        }
    }

    /// Nobody promised Go: what only Go can build may be absent on a CI machine without it.
    fn is_excused_on_ci(&self) -> bool {
        matches!(self, Self::GoTool { go_is_present: false, .. })
    }
}

/// How much this run insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A developer's machine: whatever is there is tested.
    Lenient,
    /// `CI` is set: all but what needs a Go that is not there.
    Ci,
    /// `RUBELET_REQUIRE_RUNTIMES=1`: everything.
    Everything,
}

impl Demand {
    /// What the environment asks for.
    pub fn from_env() -> Self {
        let is_set =
            |name| std::env::var(name).is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
        if is_set("RUBELET_REQUIRE_RUNTIMES") {
            Self::Everything
        } else if is_set("CI") {
            Self::Ci
        } else {
            Self::Lenient
        }
    }

    /// Whether going on without these is allowed.
    pub fn allows_skipping(self, missing: &[Missing]) -> bool {
        match self {
            Self::Lenient => true,
            Self::Ci => missing.iter().all(Missing::is_excused_on_ci),
            Self::Everything => missing.is_empty(),
        }
    }
}

/// What the flavour needs and this machine lacks; empty when [`Containerd::start`] can work.
pub fn check(flavor: Flavor) -> Vec<Missing> {
    Tools::find(flavor).err().unwrap_or_default()
}

/// A started runtime, or `None` where it is absent and may be: then the test has nothing to do.
///
/// # Panics
/// If the runtime is absent and must not be (see the [module](self)), or if it does not start.
#[must_use]
pub fn require(flavor: Flavor) -> Option<Containerd> {
    is_met(&flavor.to_string(), &check(flavor))
        .then(|| Containerd::start(flavor).unwrap_or_else(|error| panic!("{flavor} did not start: {error}")))
}

/// A started containerd 2.x that gives pods users of their own, or `None` where it is absent and may be.
///
/// # Panics
/// As [`require`].
#[must_use]
pub fn require_own_users() -> Option<Containerd> {
    let missing: Vec<Missing> = check(Flavor::V2).into_iter().chain(check_go_tool(&go_cache::RUNC)).collect();
    is_met("containerd 2 with a new runc", &missing).then(|| {
        Containerd::start_with_own_users()
            .unwrap_or_else(|error| panic!("containerd 2 did not start: {error}"))
    })
}

/// Whether nothing is missing for `what`. If something is, says that the test is skipped and why.
///
/// # Panics
/// If something is missing that must not be (see the [module](self)).
#[must_use]
pub fn is_met(what: &str, missing: &[Missing]) -> bool {
    if missing.is_empty() {
        return true;
    }
    let lacks = list(missing);
    assert!(
        Demand::from_env().allows_skipping(missing),
        "{what} is required here but cannot run: {lacks}; `cargo xtask test` sets it up"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not eprintln: the test harness would swallow it, and a skip nobody sees looks like a pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {what} cannot run here: {lacks}");
    false
}

/// The missing things in one line.
pub fn list(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The programs of one flavour, all there.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) containerd: PathBuf,
    pub(crate) ctr: PathBuf,
    /// Where containerd looks for its shim before it searches the rest of `PATH`.
    pub(crate) bin_dir: PathBuf,
}

impl Tools {
    pub(crate) fn find(flavor: Flavor) -> Result<Self, Vec<Missing>> {
        let mut missing = Vec::new();
        if !rustix::process::geteuid().is_root() {
            missing.push(Missing::Root);
        }
        let mut need = |name: &'static str, package: &'static str| {
            let found = program::find(name);
            if found.is_none() {
                missing.push(Missing::Program { name, package });
            }
            found.unwrap_or_default()
        };
        need("runc", "runc");
        need("ip", "iproute2");
        need("setpriv", "util-linux");
        for name in CNI_PLUGINS {
            if !program::is_executable(&Path::new(CNI_BIN_DIR).join(name)) {
                missing.push(Missing::Program { name, package: "containernetworking-plugins" });
            }
        }
        match std::fs::read(BUSYBOX_BINARY) {
            Err(_) => missing.push(Missing::Program { name: BUSYBOX_BINARY, package: "busybox-static" }),
            Ok(binary) if !elf::is_static(&binary) => missing.push(Missing::StaticBusybox),
            Ok(_) => {}
        }
        let bin_dir = match flavor {
            Flavor::V1_6 => {
                missing.extend(debian_containerd());
                PathBuf::from(DEBIAN_CONTAINERD_BIN_DIR)
            }
            Flavor::V2 => {
                missing.extend(check_go_tool(&go_cache::CONTAINERD));
                go_cache::CONTAINERD.bin_dir()
            }
        };
        if missing.is_empty() {
            let [containerd, ctr] = ["containerd", "ctr"].map(|name| bin_dir.join(name));
            Ok(Self { containerd, ctr, bin_dir })
        } else {
            Err(missing)
        }
    }
}

fn debian_containerd() -> Option<Missing> {
    let bin_dir = Path::new(DEBIAN_CONTAINERD_BIN_DIR);
    for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
        if !program::is_executable(&bin_dir.join(name)) {
            return Some(Missing::Program { name, package: "containerd" });
        }
    }
    let answer = Command::new(bin_dir.join("containerd")).arg("--version").output();
    let found = answer
        .map_or_else(|error| error.to_string(), |said| String::from_utf8_lossy(&said.stdout).into_owned());
    let is_1_6 = found.split_whitespace().any(|word| word.trim_start_matches('v').starts_with("1.6."));
    (!is_1_6).then(|| Missing::ContainerdVersion { found: found.trim().to_owned() })
}

/// What a tool built by Go lacks: nothing, or itself, and what it is built with.
pub fn check_go_tool(tool: &go_cache::GoTool) -> Vec<Missing> {
    if tool.is_built() {
        return Vec::new();
    }
    let go_is_present = program::find("go").is_some();
    let bin_dir = tool.bin_dir().display().to_string();
    let mut missing =
        vec![Missing::GoTool { name: tool.name, version: tool.version, bin_dir, go_is_present }];
    if let Some(library) = tool.c_library.filter(|_| go_is_present) {
        if !Path::new(library.header).exists() {
            missing.push(Missing::Program { name: library.header, package: library.package });
        }
        if program::find("pkg-config").is_none() {
            missing.push(Missing::Program { name: "pkg-config", package: "pkg-config" });
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::{Demand, Missing};

    const RUNC: Missing = Missing::Program { name: "runc", package: "runc" };

    fn containerd_2(go_is_present: bool) -> Missing {
        Missing::GoTool { name: "containerd", version: "2", bin_dir: "/cache".to_owned(), go_is_present }
    }

    #[test]
    fn only_a_missing_go_excuses_a_skip_on_ci() {
        assert!(Demand::Lenient.allows_skipping(&[RUNC]));
        assert!(!Demand::Ci.allows_skipping(&[RUNC]));
        assert!(!Demand::Ci.allows_skipping(&[Missing::Root]));
        assert!(!Demand::Ci.allows_skipping(&[containerd_2(true)]));
        assert!(Demand::Ci.allows_skipping(&[containerd_2(false)]));
        assert!(!Demand::Ci.allows_skipping(&[containerd_2(false), RUNC]));
        assert!(!Demand::Everything.allows_skipping(&[containerd_2(false)]));
    }

    #[test]
    fn what_is_missing_names_its_cure() {
        assert_eq!(RUNC.to_string(), "no runc (Debian package runc)");
        assert_eq!(containerd_2(true).to_string(), "no containerd 2 built by Go in /cache");
        assert_eq!(
            containerd_2(false).to_string(),
            "no containerd 2 built by Go in /cache, and no Go to build it"
        );
    }
}
