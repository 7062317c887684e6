//! Instructions of the kernel's eBPF machine, for programs of control groups.

/// `BPF_LDX | BPF_MEM | BPF_W`: loads a word that the source register points to.
const LOAD: u8 = 0x61;
/// `BPF_ALU64 | BPF_MOV | BPF_K`.
const SET: u8 = 0xb7;
/// `BPF_ALU64 | BPF_MOV | BPF_X`.
const COPY: u8 = 0xbf;
/// `BPF_ALU64 | BPF_AND | BPF_K`.
const AND: u8 = 0x57;
/// `BPF_ALU64 | BPF_RSH | BPF_K`.
const SHIFT_RIGHT: u8 = 0x77;
/// `BPF_JMP | BPF_JA`.
const JUMP: u8 = 0x05;
/// `BPF_JMP | BPF_JNE | BPF_K`.
const IF_DIFFERENT: u8 = 0x55;
/// `BPF_JMP | BPF_JSET | BPF_K`.
const IF_ANY: u8 = 0x45;
/// `BPF_JMP | BPF_EXIT`.
const EXIT: u8 = 0x95;

/// A register, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Register(pub(super) u8);

/// The register with the program's result.
pub(super) const ANSWER: Register = Register(0);
/// The register that points to the program's input, a `struct bpf_cgroup_dev_ctx`.
pub(super) const QUESTION: Register = Register(1);

/// One instruction. A jump says how many of the following instructions it skips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instruction {
    Load { to: Register, from: Register, offset: i16 },
    Set { to: Register, value: i32 },
    Copy { to: Register, from: Register },
    And { to: Register, value: i32 },
    ShiftRight { to: Register, by: i32 },
    Jump { over: i16 },
    IfDifferent { what: Register, from: i32, over: i16 },
    IfAny { what: Register, of: i32, over: i16 },
    Exit,
}

impl Instruction {
    /// Encodes it as a `struct bpf_insn`.
    pub(crate) fn to_word(self) -> u64 {
        let zero = Register(0);
        let (code, Register(to), Register(from), offset, value) = match self {
            Self::Load { to, from, offset } => (LOAD, to, from, offset, 0),
            Self::Set { to, value } => (SET, to, zero, 0, value),
            Self::Copy { to, from } => (COPY, to, from, 0, 0),
            Self::And { to, value } => (AND, to, zero, 0, value),
            Self::ShiftRight { to, by } => (SHIFT_RIGHT, to, zero, 0, by),
            Self::Jump { over } => (JUMP, zero, zero, over, 0),
            Self::IfDifferent { what, from, over } => (IF_DIFFERENT, what, zero, over, from),
            Self::IfAny { what, of, over } => (IF_ANY, what, zero, over, of),
            Self::Exit => (EXIT, zero, zero, 0, 0),
        };
        // Two bit fields of one byte, in the machine's order.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let mut bytes = [code, registers, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }
}
