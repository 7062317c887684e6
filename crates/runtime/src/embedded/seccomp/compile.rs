//! Compiles a policy to a program.
//!
//! The program checks the architecture, then finds the call's number by binary search: ranges of numbers with the same
//! fate are one leaf of a tree. Pieces of code only ever jump forward and end in a verdict, so they can be concatenated
//! as they are.

use std::collections::BTreeMap;

use super::arch::{Arch, PRIVATE};
use super::bpf::{
    AND, ARCHITECTURE, Filter, IF_EQUAL, IF_GREATER, IF_NOT_LESS, Instruction, JUMP, LOAD, NUMBER, halves,
};
use super::policy::{Action, Condition, ENOSYS, Policy, Test};

/// `BPF_MAXINSNS`.
const MAX_INSTRUCTIONS: usize = 4096;

/// The first number of the x32 ABI's calls: few kernels support them, and behind a filter none appears to.
const X32: u32 = 0x4000_0000;

/// The filter is too long for the kernel.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the filter has {length} instructions, but the kernel accepts at most {MAX_INSTRUCTIONS}: use fewer conditions"
)]
pub(super) struct TooLong {
    length: usize,
}

/// Compiles a policy.
pub(super) fn compile(policy: &Policy) -> Result<Filter, TooLong> {
    let mut program = vec![Instruction::plain(LOAD, ARCHITECTURE)];
    for arch in &policy.architectures {
        let block = calls(policy, *arch);
        program.push(Instruction { code: IF_EQUAL, if_true: 1, if_false: 0, value: arch.audit() });
        program.push(Instruction::plain(JUMP, length(&block)));
        program.extend(block);
    }
    program.push(Instruction::answer(Action::KillProcess));
    if program.len() > MAX_INSTRUCTIONS {
        return Err(TooLong { length: program.len() });
    }
    Ok(Filter { flags: policy.flags, program })
}

/// What happens to a call: the rules in order, and the default if none of them matches.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fate {
    rules: Vec<(Vec<Condition>, Action)>,
    otherwise: Action,
}

impl Fate {
    fn plain(action: Action) -> Self {
        Self { rules: Vec::new(), otherwise: action }
    }
}

fn calls(policy: &Policy, arch: Arch) -> Vec<Instruction> {
    let mut code = vec![Instruction::plain(LOAD, NUMBER)];
    code.extend(search(&ranges(policy, arch)));
    code
}

/// Returns the fates of all numbers: each applies from its number up to the next one.
fn ranges(policy: &Policy, arch: Arch) -> Vec<(u32, Fate)> {
    let mut fates: BTreeMap<u32, Fate> = BTreeMap::new();
    let mut settled = std::collections::BTreeSet::new();
    for rule in &policy.rules {
        for number in rule.names.iter().filter_map(|name| arch.number(name)) {
            if settled.contains(&number) {
                continue;
            }
            let fate = fates.entry(number).or_insert_with(|| Fate::plain(policy.default));
            if rule.conditions.is_empty() {
                fate.otherwise = rule.action;
                settled.insert(number);
            } else {
                fate.rules.push((rule.conditions.clone(), rule.action));
            }
        }
    }
    // To programs, a call that is newer than the policy must look as on an older kernel, where they try something else.
    // They would not expect "not permitted".
    let newest = fates.keys().copied().filter(|number| *number < PRIVATE).max();
    let beyond = if policy.default.is_permissive() { policy.default } else { Action::Errno(ENOSYS) };

    let mut list: Vec<(u32, Fate)> = Vec::new();
    let mut begin = |number: u32, fate: Fate| {
        if list.last().is_none_or(|(_, last)| *last != fate) {
            list.push((number, fate));
        }
    };
    if !fates.contains_key(&0) {
        begin(0, Fate::plain(policy.default));
    }
    for (number, fate) in &fates {
        begin(*number, fate.clone());
        if !fates.contains_key(&(number + 1)) {
            let after = if newest.is_none_or(|newest| *number < newest) { policy.default } else { beyond };
            begin(number + 1, Fate::plain(after));
        }
    }
    if arch == Arch::X86_64 {
        begin(X32, Fate::plain(Action::Errno(ENOSYS)));
    }
    list
}

/// Returns code that finds the range of the number in the accumulator.
fn search(ranges: &[(u32, Fate)]) -> Vec<Instruction> {
    match ranges {
        [] => Vec::new(),
        [(_, fate)] => verdict(fate),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (first, low, high) = (high[0].0, search(low), search(high));
            let mut code = match u8::try_from(low.len()) {
                Ok(near) => {
                    vec![Instruction { code: IF_NOT_LESS, if_true: near, if_false: 0, value: first }]
                }
                Err(_) => vec![
                    Instruction { code: IF_NOT_LESS, if_true: 0, if_false: 1, value: first },
                    Instruction::plain(JUMP, length(&low)),
                ],
            };
            code.extend(low);
            code.extend(high);
            code
        }
    }
}

fn verdict(fate: &Fate) -> Vec<Instruction> {
    let mut code = Vec::new();
    for (conditions, action) in &fate.rules {
        code.extend(rule(conditions, *action));
    }
    code.push(Instruction::answer(fate.otherwise));
    code
}

/// Returns code that ends with the action if all conditions hold, and else continues after itself.
fn rule(conditions: &[Condition], action: Action) -> Vec<Instruction> {
    let mut code = vec![Instruction::answer(action)];
    for condition in conditions.iter().rev() {
        let steps = steps(*condition);
        let mut whole: Vec<Instruction> = Vec::with_capacity(steps.len() + code.len());
        for (index, step) in steps.iter().enumerate() {
            let to_end = steps.len() - index - 1;
            let distance = |target: Target| match target {
                Target::Next => 0,
                Target::Holds => to_end,
                Target::Fails => to_end + code.len(),
            };
            whole.push(match *step {
                Step::Do(code, value) => Instruction::plain(code, value),
                Step::If(code, value, yes, no) => Instruction {
                    code,
                    // Six arguments of six steps each stay far below the limit of 255.
                    if_true: u8::try_from(distance(yes)).unwrap_or(u8::MAX),
                    if_false: u8::try_from(distance(no)).unwrap_or(u8::MAX),
                    value,
                },
            });
        }
        whole.extend(code);
        code = whole;
    }
    code
}

#[derive(Clone, Copy)]
enum Target {
    Next,
    Holds,
    Fails,
}

#[derive(Clone, Copy)]
enum Step {
    Do(u16, u32),
    If(u16, u32, Target, Target),
}

/// Compiles a 64-bit condition for a 32-bit machine: the high half decides, unless it is equal.
fn steps(condition: Condition) -> Vec<Step> {
    use Step::{Do, If};
    use Target::{Fails, Holds, Next};
    let (low, high) = halves(condition.argument);
    let split = |value: u64| ((value >> 32) as u32, (value & 0xffff_ffff) as u32);
    match condition.test {
        Test::Equal(value) => {
            let (a, b) = split(value);
            vec![Do(LOAD, high), If(IF_EQUAL, a, Next, Fails), Do(LOAD, low), If(IF_EQUAL, b, Holds, Fails)]
        }
        Test::NotEqual(value) => {
            let (a, b) = split(value);
            vec![Do(LOAD, high), If(IF_EQUAL, a, Next, Holds), Do(LOAD, low), If(IF_EQUAL, b, Fails, Holds)]
        }
        Test::Greater(value) => ordered(condition.argument, value, IF_GREATER, Holds, Fails),
        Test::GreaterOrEqual(value) => ordered(condition.argument, value, IF_NOT_LESS, Holds, Fails),
        Test::Less(value) => ordered(condition.argument, value, IF_NOT_LESS, Fails, Holds),
        Test::LessOrEqual(value) => ordered(condition.argument, value, IF_GREATER, Fails, Holds),
        Test::Masked { mask, value } => {
            let ((mask_high, mask_low), (a, b)) = (split(mask), split(value & mask));
            vec![
                Do(LOAD, high),
                Do(AND, mask_high),
                If(IF_EQUAL, a, Next, Fails),
                Do(LOAD, low),
                Do(AND, mask_low),
                If(IF_EQUAL, b, Holds, Fails),
            ]
        }
    }
}

/// Continues at `above` if the argument is greater or its low half satisfies the comparison, else at `below`.
fn ordered(argument: u8, value: u64, comparison: u16, above: Target, below: Target) -> Vec<Step> {
    let (low, high) = halves(argument);
    let (a, b) = ((value >> 32) as u32, (value & 0xffff_ffff) as u32);
    vec![
        Step::Do(LOAD, high),
        Step::If(IF_GREATER, a, above, Target::Next),
        Step::If(IF_EQUAL, a, Target::Next, below),
        Step::Do(LOAD, low),
        Step::If(comparison, b, above, below),
    ]
}

/// The length of a program: at most [`MAX_INSTRUCTIONS`], since longer ones are rejected.
fn length(code: &[Instruction]) -> u32 {
    u32::try_from(code.len()).unwrap_or(u32::MAX)
}
