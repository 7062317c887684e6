//! The runtimes that a test can ask for.

use std::fmt;

/// A generation of containerd, chosen for how it behaves towards a PLEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Debian's containerd 1.6: `GetContainerEvents` answers `Unimplemented`, so only relisting finds changes.
    V1_6,
    /// containerd 2.x built from source: container events work.
    V2,
}

impl Flavor {
    /// Every flavour, for tests that hold for all of them.
    pub const ALL: [Self; 2] = [Self::V1_6, Self::V2];
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_6 => "containerd 1.6",
            Self::V2 => "containerd 2",
        })
    }
}
