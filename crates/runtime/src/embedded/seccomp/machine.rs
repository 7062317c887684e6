//! A minimal model of the kernel's filter machine, to run our programs in tests.

use super::arch::Arch;
use super::bpf::{AND, Filter, IF_EQUAL, IF_GREATER, IF_NOT_LESS, JUMP, LOAD, RETURN};

/// Returns the program's verdict on a call. Panics on a program that the kernel would not load.
pub(super) fn run(filter: &Filter, arch: Arch, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [number, arch.audit(), 0, 0].to_vec();
    for argument in arguments {
        data.extend([(argument & 0xffff_ffff) as u32, (argument >> 32) as u32]);
    }
    let (mut at, mut accumulator) = (0_usize, 0_u32);
    loop {
        let step = filter.program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { step.if_true } else { step.if_false });
        match step.code {
            LOAD => accumulator = data[step.value as usize / 4],
            AND => accumulator &= step.value,
            JUMP => at += step.value as usize,
            IF_EQUAL => at += jump(accumulator == step.value),
            IF_GREATER => at += jump(accumulator > step.value),
            IF_NOT_LESS => at += jump(accumulator >= step.value),
            RETURN => return step.value,
            other => panic!("{other:#x} is no instruction of ours"),
        }
    }
}
