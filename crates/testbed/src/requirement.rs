//! What a runtime needs on this machine, what of that is missing, and whether a test may then be skipped.
//!
//! If a runtime is missing, the test is skipped with a message. It is a failure instead
//!
//! - if `CI` is set, for everything that `cargo xtask test` can install, which is all but Go itself;
//! - if `RUBELET_REQUIRE_RUNTIMES=1`, for everything.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Containerd, Flavor, elf, go_cache, program};

pub(crate) const CNI_BIN_DIR: &str = "/usr/lib/cni";
pub(crate) const BUSYBOX_BINARY: &str = "/bin/busybox";
const CNI_PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
const DEBIAN_CONTAINERD_BIN_DIR: &str = "/usr/bin";

/// Something that a runtime needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Root, which containers, mounts and networks need.
    #[error("not running as root")]
    Root,
    /// A program from a Debian package.
    #[error("no {name} (Debian package {package})")]
    Program {
        /// The program's name, or its path if it has to be at that path.
        name: &'static str,
        /// The package that contains it.
        package: &'static str,
    },
    /// A static busybox: in the images it must run without any other file.
    #[error("{BUSYBOX_BINARY} is not statically linked (Debian package busybox-static)")]
    StaticBusybox,
    /// A containerd of the generation that the test wants; the system has another.
    #[error("the system's containerd is {found:?}, not 1.6")]
    ContainerdVersion {
        /// The output of `containerd --version`.
        found: String,
    },
    /// A tool that has not been built with Go yet.
    #[error("no {name} {version} built by Go in {bin_dir}{}", if *.go_is_present { "" } else { ", and no Go to build it" })]
    GoTool {
        /// The tool's name.
        name: &'static str,
        /// The version that tests want.
        version: &'static str,
        /// Where it should be.
        bin_dir: String,
        /// Whether Go is installed, so that `cargo xtask test` could build it.
        go_is_present: bool,
    },
}

impl Missing {
    /// The Debian package that would fix it.
    pub fn package(&self) -> Option<&'static str> {
        match self {
            Self::Program { package, .. } => Some(package),
            Self::StaticBusybox => Some("busybox-static"),
            Self::Root | Self::ContainerdVersion { .. } | Self::GoTool { .. } => None,
        }
    }

    /// Whether it may be missing on a CI machine. Go is not guaranteed there, nor is anything that only Go can build.
    fn is_excused_on_ci(&self) -> bool {
        matches!(self, Self::GoTool { go_is_present: false, .. })
    }
}

/// How strict this run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// On a developer's machine: whatever is there is tested.
    Lenient,
    /// If `CI` is set: everything is required except what needs Go, if there is no Go.
    Ci,
    /// If `RUBELET_REQUIRE_RUNTIMES=1`: everything is required.
    Everything,
}

impl Demand {
    /// Reads it from the environment.
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

    /// Returns whether a test may be skipped because of these.
    pub fn allows_skipping(self, missing: &[Missing]) -> bool {
        match self {
            Self::Lenient => true,
            Self::Ci => missing.iter().all(Missing::is_excused_on_ci),
            Self::Everything => missing.is_empty(),
        }
    }
}

/// Returns what the flavour needs and this machine lacks; if empty, [`Containerd::start`] can work.
pub fn check(flavor: Flavor) -> Vec<Missing> {
    Tools::find(flavor).err().unwrap_or_default()
}

/// Starts a runtime; `None` if it is missing and may be, in which case the test has nothing to do.
///
/// # Panics
/// If the runtime is missing and must not be (see the [module](self)), or if it does not start.
#[must_use]
pub fn require(flavor: Flavor) -> Option<Containerd> {
    is_met(&flavor.to_string(), &check(flavor))
        .then(|| Containerd::start(flavor).unwrap_or_else(|error| panic!("{flavor} did not start: {error}")))
}

/// Starts a containerd 2.x that supports user namespaces for pods; `None` if it is missing and may be.
///
/// # Panics
/// Like [`require`].
#[must_use]
pub fn require_own_users() -> Option<Containerd> {
    let missing: Vec<Missing> = check(Flavor::V2).into_iter().chain(check_go_tool(&go_cache::RUNC)).collect();
    is_met("containerd 2 with a new runc", &missing).then(|| {
        Containerd::start_with_own_users()
            .unwrap_or_else(|error| panic!("containerd 2 did not start: {error}"))
    })
}

/// Returns whether nothing is missing for `what`. Otherwise prints that the test is skipped, and why.
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
    // Not eprintln: the test harness would capture it, and a skip that nobody sees looks like a success.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {what} cannot run here: {lacks}");
    false
}

/// Lists what is missing, in one line.
pub fn list(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The programs for one flavour, all of them present.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) containerd: PathBuf,
    pub(crate) ctr: PathBuf,
    /// The folder in which containerd looks for its shim before it searches the rest of `PATH`.
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

/// Returns what is missing for a tool built with Go: nothing, or the tool and what it is built with.
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
