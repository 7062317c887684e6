//! Compiles rules to a program. Pure.

use super::bpf::{ANSWER, Instruction, QUESTION, Register};
use super::rule::{Access, Rule};

const KIND: Register = Register(2);
/// The requested kinds of access that no rule has decided yet.
const WANTED: Register = Register(3);
const MAJOR: Register = Register(4);
const MINOR: Register = Register(5);

/// Compiles the program for these rules, or returns `None` if they allow everything.
///
/// For each kind of access, the last rule that covers it decides. So the program checks the rules from the last to the
/// first, until one forbids something that is still undecided, or everything is allowed. Anything that no rule covers
/// is forbidden.
pub(super) fn program(rules: &[Rule]) -> Option<Vec<Instruction>> {
    let base = rules.iter().rposition(Rule::is_for_everything);
    // The kernel rejects programs with unreachable code.
    let rules = &rules[base.unwrap_or_default()..];
    if base.is_some() && rules.iter().all(|rule| rule.allow) {
        return None;
    }
    let mut program = vec![
        Instruction::Load { to: KIND, from: QUESTION, offset: 0 },
        Instruction::Copy { to: WANTED, from: KIND },
        Instruction::And { to: KIND, value: 0xffff },
        Instruction::ShiftRight { to: WANTED, by: 16 },
        Instruction::Load { to: MAJOR, from: QUESTION, offset: 4 },
        Instruction::Load { to: MINOR, from: QUESTION, offset: 8 },
    ];
    // A request for no kind of access only asks whether the device is there.
    program.extend(allow_if_nothing_is_left());
    for rule in rules.iter().rev() {
        let verdict = verdict(rule);
        let mut checks = vec![];
        for (what, wanted) in
            [(KIND, rule.kind.map(|kind| kind as u32)), (MAJOR, rule.major), (MINOR, rule.minor)]
        {
            checks.extend(wanted.map(|wanted| (what, wanted.cast_signed())));
        }
        for (index, (what, from)) in checks.iter().copied().enumerate() {
            let rest = checks.len() - index - 1 + verdict.len();
            let over = i16::try_from(rest).expect("a rule has a few instructions");
            program.push(Instruction::IfDifferent { what, from, over });
        }
        program.extend(verdict);
    }
    if base.is_none() {
        program.extend(answer(false));
    }
    Some(program)
}

/// Returns the code for the verdict of a rule that matches the device.
fn verdict(rule: &Rule) -> Vec<Instruction> {
    let Access(bits) = rule.access;
    match (rule.allow, rule.access) {
        (allow, Access::ALL) => answer(allow).to_vec(),
        (true, _) => {
            let rest = Instruction::And { to: WANTED, value: Access::ALL.0 & !bits };
            [rest].into_iter().chain(allow_if_nothing_is_left()).collect()
        }
        (false, _) => {
            let forbidden = Instruction::IfAny { what: WANTED, of: bits, over: 1 };
            [forbidden, Instruction::Jump { over: 2 }].into_iter().chain(answer(false)).collect()
        }
    }
}

fn allow_if_nothing_is_left() -> [Instruction; 3] {
    let [set, exit] = answer(true);
    [Instruction::IfDifferent { what: WANTED, from: 0, over: 2 }, set, exit]
}

fn answer(allow: bool) -> [Instruction; 2] {
    [Instruction::Set { to: ANSWER, value: i32::from(allow) }, Instruction::Exit]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::machine::{Question, run};
    use super::super::rule::Kind;
    use super::super::{DeviceRules, usual};
    use super::*;

    fn is_allowed(rules: &[Rule], question: Question) -> bool {
        program(rules).is_none_or(|program| run(&program, question))
    }

    fn question(kind: Kind, major: u32, minor: u32, letters: &str) -> Question {
        let Access(access) = letters.to_owned().try_into().unwrap();
        Question { kind, major, minor, access }
    }

    #[test]
    fn what_a_container_may_do_by_table() {
        let of = |list: Value| {
            DeviceRules::of(&json!({ "linux": { "resources": { "devices": list } } })).unwrap().0
        };
        let nothing = json!({ "allow": false, "access": "rwm" });
        let usual = of(json!([nothing]));
        let disk =
            of(json!([nothing, { "allow": true, "type": "b", "major": 8, "minor": 0, "access": "r" }]));
        let privileged = of(json!([{ "allow": true, "access": "rwm" }]));
        let all_but_one = of(json!([
            { "allow": true, "access": "rwm" },
            { "allow": false, "type": "b", "major": 8, "minor": 0, "access": "w" },
        ]));
        assert_eq!(program(&privileged), None);
        use Kind::{Block, Character};
        for (rules, kind, major, minor, access, wanted) in [
            (&usual, Character, 1, 3, "rw", true),
            (&usual, Character, 136, 7, "rw", true),
            (&usual, Character, 5, 2, "rw", true),
            (&usual, Character, 1, 1, "r", false),
            (&usual, Character, 10, 200, "rw", false),
            (&usual, Character, 10, 200, "m", true),
            (&usual, Block, 1, 3, "r", false),
            (&usual, Block, 8, 0, "r", false),
            (&usual, Block, 8, 0, "w", false),
            (&usual, Block, 8, 0, "m", true),
            (&usual, Block, 8, 0, "", true),
            (&disk, Block, 8, 0, "r", true),
            (&disk, Block, 8, 0, "rw", false),
            (&disk, Block, 8, 0, "w", false),
            (&disk, Block, 8, 1, "r", false),
            (&disk, Character, 8, 0, "r", false),
            (&privileged, Block, 8, 0, "rwm", true),
            (&all_but_one, Block, 8, 0, "r", true),
            (&all_but_one, Block, 8, 0, "w", false),
            (&all_but_one, Block, 8, 0, "rw", false),
            (&all_but_one, Block, 8, 1, "rw", true),
        ] {
            let question = question(kind, major, minor, access);
            assert_eq!(is_allowed(rules, question), wanted, "{question:?} {rules:?}");
        }
    }

    #[test]
    fn what_no_rule_is_for_is_forbidden() {
        let rules: Vec<Rule> = usual().collect();
        assert!(!is_allowed(&rules, question(Kind::Block, 8, 0, "r")));
        assert!(!is_allowed(&[], question(Kind::Character, 1, 3, "r")));
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let kind = prop_oneof![Just(None), Just(Some(Kind::Block)), Just(Some(Kind::Character))];
        let number = || proptest::option::of(0_u32..2);
        (any::<bool>(), kind, number(), number(), 0..=7).prop_map(|(allow, kind, major, minor, access)| {
            Rule { allow, kind, major, minor, access: Access(access) }
        })
    }

    proptest! {
        #[test]
        fn the_last_rule_for_it_counts(rules in proptest::collection::vec(any_rule(), 0..8)) {
            for (kind, major, minor, access) in [Kind::Block, Kind::Character]
                .into_iter()
                .flat_map(|kind| (0..32).map(move |bits| (kind, bits >> 4, bits >> 3 & 1, bits as i32 & 7)))
            {
                let last = |bit: i32| rules.iter().rev().find(|rule| {
                    rule.kind.is_none_or(|wanted| wanted == kind)
                        && rule.major.is_none_or(|wanted| wanted == major)
                        && rule.minor.is_none_or(|wanted| wanted == minor)
                        && rule.access.0 & bit != 0
                });
                let wanted = [1, 2, 4].into_iter().filter(|bit| access & bit != 0)
                    .all(|bit| last(bit).is_some_and(|rule| rule.allow));
                prop_assert_eq!(is_allowed(&rules, Question { kind, major, minor, access }), wanted);
            }
        }
    }
}
