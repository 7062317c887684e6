//! What a filter does, before it is compiled to a program.

use std::collections::BTreeSet;

use super::arch::Arch;

/// The action on a system call.
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
    /// Returns `SECCOMP_RET_*`, with its data.
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

/// How an argument is compared with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal(u64),
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Greater(u64),
    GreaterOrEqual(u64),
    /// The masked bits equal the value.
    Masked {
        mask: u64,
        value: u64,
    },
}

/// A condition on one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    /// The argument's index, from 0 to 5.
    pub(super) argument: u8,
    pub(super) test: Test,
}

/// The action on some calls if all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) names: Vec<String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) action: Action,
}

/// Everything that a filter is compiled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// A call from a program of any other architecture kills the process.
    pub(super) architectures: Vec<Arch>,
    /// The first rule that matches decides.
    pub(super) rules: Vec<Rule>,
    /// The action if no rule matches.
    pub(super) default: Action,
    /// Flags of `seccomp(2)`.
    pub(super) flags: u32,
}

/// What the rules of a profile may depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) host: Arch,
    /// The container's capabilities, without `CAP_`.
    pub(super) capabilities: &'a BTreeSet<String>,
    /// The kernel's version and major revision.
    pub(super) kernel: (u32, u32),
}
