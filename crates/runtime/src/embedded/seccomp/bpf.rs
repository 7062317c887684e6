//! Instructions of the kernel's classic BPF machine, and programs made of them.

use super::policy::Action;

/// `BPF_LD | BPF_W | BPF_ABS`: loads a word of the call's data into the accumulator.
pub(super) const LOAD: u16 = 0x20;
/// `BPF_ALU | BPF_AND | BPF_K`.
pub(super) const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JA`.
pub(super) const JUMP: u16 = 0x05;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
pub(super) const IF_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGT | BPF_K`.
pub(super) const IF_GREATER: u16 = 0x25;
/// `BPF_JMP | BPF_JGE | BPF_K`.
pub(super) const IF_NOT_LESS: u16 = 0x35;
/// `BPF_RET | BPF_K`.
pub(super) const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
pub(super) const NUMBER: u32 = 0;
pub(super) const ARCHITECTURE: u32 = 4;

/// Returns the offsets of the low and the high half of an argument.
pub(super) fn halves(argument: u8) -> (u32, u32) {
    let low = 16 + 8 * u32::from(argument);
    (low, low + 4)
}

/// `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) value: u32,
}

impl Instruction {
    pub(super) fn plain(code: u16, value: u32) -> Self {
        Self { code, if_true: 0, if_false: 0, value }
    }

    pub(super) fn answer(action: Action) -> Self {
        Self::plain(RETURN, action.code())
    }
}

/// A program, and the flags to load it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Flags of `seccomp(2)`.
    pub(crate) flags: u32,
    pub(crate) program: Vec<Instruction>,
}

impl Filter {
    /// Encodes the flags, followed by the instructions in the kernel's format.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.flags.to_le_bytes().to_vec();
        for instruction in &self.program {
            bytes.extend(instruction.code.to_le_bytes());
            bytes.extend([instruction.if_true, instruction.if_false]);
            bytes.extend(instruction.value.to_le_bytes());
        }
        bytes
    }

    /// Decodes a filter; `None` if these are not the bytes of one: a truncated program must not pass for a whole one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first_chunk::<4>()?;
        let (instructions, left) = rest.as_chunks::<8>();
        if instructions.is_empty() || !left.is_empty() {
            return None;
        }
        let program = instructions
            .iter()
            .map(|[a, b, if_true, if_false, value @ ..]| Instruction {
                code: u16::from_le_bytes([*a, *b]),
                if_true: *if_true,
                if_false: *if_false,
                value: u32::from_le_bytes(*value),
            })
            .collect();
        Some(Self { flags: u32::from_le_bytes(*flags), program })
    }
}
