//! The cache of programs built with Go, kept outside `target/` between test runs, so that `cargo clean` does not cost
//! minutes.

use std::path::PathBuf;

use crate::program;

/// One Go module in one version, and those of its programs that tests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoTool {
    /// The name of the folder in the cache.
    pub name: &'static str,
    /// The version, without the leading `v`.
    pub version: &'static str,
    /// The module's path.
    pub module: &'static str,
    /// The import path of each program; the last element is the program's name.
    pub packages: &'static [&'static str],
    /// Whether the programs are tests, which Go builds differently.
    pub is_test: bool,
    /// Whether the module refers to parts of its own repository by folder. Programs of other modules find these parts
    /// published with the version `0.MINOR.PATCH`.
    pub is_staged: bool,
    /// The library that its parts in C need, if any.
    pub c_library: Option<CLibrary>,
}

/// A C library that a program is built with. A machine that builds it has a C compiler, since Rust needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CLibrary {
    /// The path of its header, which exists if the library is installed.
    pub header: &'static str,
    /// The Debian package that contains it.
    pub package: &'static str,
}

/// containerd with container events.
pub const CONTAINERD: GoTool = GoTool {
    name: "containerd",
    version: "2.3.4",
    module: "github.com/containerd/containerd/v2",
    packages: &[
        "github.com/containerd/containerd/v2/cmd/containerd",
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        "github.com/containerd/containerd/v2/cmd/ctr",
    ],
    is_test: false,
    is_staged: false,
    c_library: None,
};

/// A runc that supports user namespaces, for containerd 2.x: Debian's is too old.
pub const RUNC: GoTool = GoTool {
    name: "runc",
    version: "1.4.3",
    module: "github.com/opencontainers/runc",
    packages: &["github.com/opencontainers/runc"],
    is_test: false,
    is_staged: false,
    c_library: Some(CLibrary { header: "/usr/include/seccomp.h", package: "libseccomp-dev" }),
};

/// The reference command line client of CRI.
pub const CRICTL: GoTool = GoTool {
    name: "crictl",
    version: "1.36.0",
    module: "sigs.k8s.io/cri-tools",
    packages: &["sigs.k8s.io/cri-tools/cmd/crictl"],
    is_test: false,
    is_staged: false,
    c_library: None,
};

/// The upstream conformance tests for CRI runtimes. Built when `cargo xtask critest` needs it.
pub const CRITEST: GoTool = GoTool {
    name: "critest",
    version: "1.36.0",
    module: "sigs.k8s.io/cri-tools",
    packages: &["sigs.k8s.io/cri-tools/cmd/critest"],
    is_test: true,
    is_staged: false,
    c_library: None,
};

/// The program that pod statuses are compared with. Built when `cargo xtask conformance record` needs it.
pub const KUBELET: GoTool = GoTool {
    name: "kubelet",
    version: "1.36.4",
    module: "k8s.io/kubernetes",
    packages: &["k8s.io/kubernetes/cmd/kubelet"],
    is_test: false,
    is_staged: true,
    c_library: None,
};

/// Everything that `cargo xtask test` builds.
pub const ALL: [GoTool; 3] = [CONTAINERD, RUNC, CRICTL];

impl GoTool {
    /// The folder of the finished programs, which may not exist yet.
    pub fn bin_dir(&self) -> PathBuf {
        root().join(format!("{}-{}", self.name, self.version)).join("bin")
    }

    /// Returns whether every program has been built.
    pub fn is_built(&self) -> bool {
        let folder = self.bin_dir();
        self.programs().all(|name| program::is_executable(&folder.join(name)))
    }

    /// The names of the programs.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        self.packages.iter().map(|package| package.rsplit('/').next().unwrap_or(package))
    }
}

/// `$XDG_CACHE_HOME/rubelet-testbed`, or the same below `~/.cache`.
pub fn root() -> PathBuf {
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"))
        .join("rubelet-testbed")
}

/// The built `crictl`, if there is one.
pub fn crictl() -> Option<PathBuf> {
    CRICTL.is_built().then(|| CRICTL.bin_dir().join("crictl"))
}

#[cfg(test)]
mod tests {
    use super::CONTAINERD;

    #[test]
    fn programs_are_named_by_the_last_element_of_their_package() {
        assert_eq!(
            CONTAINERD.programs().collect::<Vec<_>>(),
            ["containerd", "containerd-shim-runc-v2", "ctr"]
        );
    }
}
