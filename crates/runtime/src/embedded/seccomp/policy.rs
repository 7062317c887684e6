//! What a filter is to do, before it is a program.

use std::collections::BTreeSet;

use super::arch::Arch;

/// What becomes of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Allow,
    Log,
    Errno(u16),
    Trace(u16),
    Trap,
    KillThread,
    KillProcess,
}

impl Action {
    /// `SECCOMP_RET_*`, with its data.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Log => 0x7ffc_0000,
            Self::Errno(number) => 0x0005_0000 | u32::from(number),
            Self::Trace(data) => 0x7ff0_0000 | u32::from(data),
            Self::Trap => 0x0003_0000,
            Self::KillThread => 0,
            Self::KillProcess => 0x8000_0000,
        }
    }

    /// Whether the call is made, as far as the filter is concerned: a tracer decides for itself.
    pub(super) fn is_permissive(self) -> bool {
        matches!(self, Self::Allow | Self::Log | Self::Trace(_))
    }
}

pub(super) const EPERM: u16 = 1;
pub(super) const ENOSYS: u16 = 38;

/// How an argument is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal(u64),
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Greater(u64),
    GreaterOrEqual(u64),
    /// Of these bits, exactly those are set.
    Masked {
        mask: u64,
        value: u64,
    },
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    /// 0 to 5.
    pub(super) argument: u8,
    pub(super) test: Test,
}

/// What becomes of some calls if all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) names: Vec<String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
}

/// Everything that a filter is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// Calls from programs of any other end the process.
    pub(super) architectures: Vec<Arch>,
    /// The first that fits counts.
    pub(super) rules: Vec<Rule>,
    /// If none does.
    pub(super) default: Action,
    /// Flags of `seccomp(2)`.
    pub(super) flags: u32,
}

/// What rules of a profile may depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) host: Arch,
    /// Of the container, without `CAP_`.
    pub(super) capabilities: &'a BTreeSet<String>,
    /// Version and major revision.
    pub(super) kernel: (u32, u32),
}
