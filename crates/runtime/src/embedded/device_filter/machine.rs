//! A minimal model of the kernel's eBPF machine, to run our programs in tests.

use super::bpf::{Instruction, Register};
use super::rule::Kind;

/// The input of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) kind: Kind,
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) access: i32,
}

/// Returns whether the program allows it. Panics on a program that the kernel would not load.
pub(super) fn run(program: &[Instruction], question: Question) -> bool {
    let words = [
        question.kind as u64 | u64::from(question.access.cast_unsigned()) << 16,
        u64::from(question.major),
        u64::from(question.minor),
    ];
    // Pointers may only be dereferenced, and registers that were never set may not be read.
    let mut registers: [Option<u64>; 11] = [None; 11];
    let mut at = 0;
    loop {
        let read =
            |Register(number): Register| registers[usize::from(number)].expect("a register that was set");
        let step = program[at];
        at += 1;
        let over = |distance: i16| usize::try_from(distance).expect("a jump ahead");
        let wide = |value: i32| i64::from(value).cast_unsigned();
        let (Register(to), value) = match step {
            Instruction::Load { to, from: Register(1), offset } => {
                (to, words[usize::try_from(offset).expect("inside") / 4])
            }
            Instruction::Load { .. } => panic!("only the question can be read"),
            Instruction::Set { to, value } => (to, wide(value)),
            Instruction::Copy { to, from } => (to, read(from)),
            Instruction::And { to, value } => (to, read(to) & wide(value)),
            Instruction::ShiftRight { to, by } => (to, read(to) >> by),
            Instruction::Jump { over: distance } => {
                at += over(distance);
                continue;
            }
            Instruction::IfDifferent { what, from, over: distance } => {
                at += if read(what) == wide(from) { 0 } else { over(distance) };
                continue;
            }
            Instruction::IfAny { what, of, over: distance } => {
                at += if read(what) & wide(of) == 0 { 0 } else { over(distance) };
                continue;
            }
            Instruction::Exit => return read(Register(0)) != 0,
        };
        registers[usize::from(to)] = Some(value);
    }
}
