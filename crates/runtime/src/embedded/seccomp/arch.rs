//! The instruction sets that a filter can tell apart, and their system call numbers.

use std::str::FromStr as _;

/// An instruction set that a filter can recognize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Arch {
    X86_64,
    X86,
    Aarch64,
    Arm,
}

impl Arch {
    pub(super) const ALL: [Self; 4] = [Self::X86_64, Self::X86, Self::Aarch64, Self::Arm];

    /// Returns this machine's own; `None` where filters are not supported.
    pub(super) fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Returns this one, and those whose programs it can run as well.
    pub(super) fn family(self) -> Vec<Self> {
        match self {
            Self::X86_64 => vec![Self::X86_64, Self::X86],
            Self::Aarch64 => vec![Self::Aarch64, Self::Arm],
            other => vec![other],
        }
    }

    /// Returns its `AUDIT_ARCH_*` value.
    pub(super) fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::X86 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
            Self::Arm => 0x4000_0028,
        }
    }

    /// Parses the name that profiles use in lists of architectures.
    pub(super) fn from_profile(name: &str) -> Option<Self> {
        match name {
            "SCMP_ARCH_X86_64" => Some(Self::X86_64),
            "SCMP_ARCH_X86" => Some(Self::X86),
            "SCMP_ARCH_AARCH64" => Some(Self::Aarch64),
            "SCMP_ARCH_ARM" => Some(Self::Arm),
            _ => None,
        }
    }

    /// Returns the name that profiles use in the conditions of a rule.
    pub(super) fn in_conditions(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::X86 => "x86",
            Self::Aarch64 => "arm64",
            Self::Arm => "arm",
        }
    }

    /// Returns the number of a system call; `None` if this architecture does not have it.
    pub(super) fn number(self, name: &str) -> Option<u32> {
        let number = match (self, name) {
            // Aliases that profiles use.
            (Self::Aarch64, "newfstatat") => 79,
            (Self::Arm, "sync_file_range2") => 341,
            // Calls that no table contains, because their numbers are far above all others.
            (Self::Arm, "breakpoint") => PRIVATE + 1,
            (Self::Arm, "cacheflush") => PRIVATE + 2,
            (Self::Arm, "usr26") => PRIVATE + 3,
            (Self::Arm, "usr32") => PRIVATE + 4,
            (Self::Arm, "set_tls") => PRIVATE + 5,
            (Self::Arm, "get_tls") => PRIVATE + 6,
            (Self::X86_64, name) => syscalls::x86_64::Sysno::from_str(name).ok()?.id().cast_unsigned(),
            (Self::X86, name) => syscalls::x86::Sysno::from_str(name).ok()?.id().cast_unsigned(),
            (Self::Aarch64, name) => syscalls::aarch64::Sysno::from_str(name).ok()?.id().cast_unsigned(),
            (Self::Arm, name) => syscalls::arm::Sysno::from_str(name).ok()?.id().cast_unsigned(),
        };
        Some(number)
    }
}

/// The first number of the calls that only 32-bit ARM has.
pub(super) const PRIVATE: u32 = 0x000f_0000;
