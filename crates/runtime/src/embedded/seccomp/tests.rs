//! The verdicts of filters, tested by running them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::machine::run;
use super::policy::{Action, Condition, ENOSYS, EPERM, Policy, Rule, Test};
use super::*;

const DENIED: u32 = 0x0005_0001;
const UNKNOWN: u32 = 0x0005_0026;
const ALLOWED: u32 = 0x7fff_0000;

fn rights(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn at(host: Arch, capabilities: &BTreeSet<String>) -> Circumstances<'_> {
    Circumstances { host, capabilities, kernel: (6, 1) }
}

fn by_default(host: Arch, capabilities: &[&str]) -> Filter {
    compile::compile(&default::policy(&at(host, &rights(capabilities)))).expect("a program")
}

fn call(filter: &Filter, arch: Arch, name: &str, first: u64) -> u32 {
    let number = arch.number(name).unwrap_or_else(|| panic!("{name} on {arch:?}"));
    run(filter, arch, number, [first, 0, 0, 0, 0, 0])
}

#[test]
fn every_name_of_the_default_table_is_a_system_call() {
    for name in default::ALWAYS.split_whitespace() {
        assert!(Arch::ALL.iter().any(|arch| arch.number(name).is_some()), "{name}");
    }
}

#[test]
fn the_default_by_table() {
    // Call, its first argument, verdict without capabilities, verdict with SYS_ADMIN.
    let table: &[(&str, u64, u32, u32)] = &[
        ("read", 0, ALLOWED, ALLOWED),
        ("execve", 0, ALLOWED, ALLOWED),
        ("ptrace", 0, ALLOWED, ALLOWED),
        ("mount", 0, DENIED, ALLOWED),
        ("umount2", 0, DENIED, ALLOWED),
        ("unshare", 0x1000_0000, DENIED, ALLOWED),
        ("setns", 0, DENIED, ALLOWED),
        ("bpf", 0, DENIED, ALLOWED),
        ("keyctl", 0, DENIED, DENIED),
        ("add_key", 0, DENIED, DENIED),
        ("io_uring_setup", 0, DENIED, DENIED),
        ("init_module", 0, DENIED, DENIED),
        ("clock_settime", 0, DENIED, DENIED),
        ("chroot", 0, DENIED, DENIED),
        // A thread, a process, a user namespace, a pid namespace.
        ("clone", 0x003d_0f00, ALLOWED, ALLOWED),
        ("clone", 17, ALLOWED, ALLOWED),
        ("clone", 0x1000_0011, DENIED, ALLOWED),
        ("clone", 0x2000_0011, DENIED, ALLOWED),
        ("clone3", 0, UNKNOWN, ALLOWED),
        // Unix, IPv6, netlink; ciphers and virtual machines, even with bits that the kernel ignores.
        ("socket", 1, ALLOWED, ALLOWED),
        ("socket", 10, ALLOWED, ALLOWED),
        ("socket", 16, ALLOWED, ALLOWED),
        ("socket", 38, DENIED, DENIED),
        ("socket", 40, DENIED, DENIED),
        ("socket", 0x1_0000_0026, DENIED, DENIED),
        ("personality", 0, ALLOWED, ALLOWED),
        ("personality", 0xffff_ffff, ALLOWED, ALLOWED),
        ("personality", 0x0004_0000, DENIED, DENIED),
    ];
    for host in [Arch::X86_64, Arch::Aarch64] {
        let (plain, admin) = (by_default(host, &[]), by_default(host, &["SYS_ADMIN"]));
        for arch in host.family() {
            for (name, first, without, with) in table {
                assert_eq!(call(&plain, arch, name, *first), *without, "{name}({first:#x}) on {arch:?}");
                assert_eq!(
                    call(&admin, arch, name, *first),
                    *with,
                    "{name}({first:#x}) as admin on {arch:?}"
                );
            }
        }
    }
}

#[test]
fn rights_bring_their_calls_back() {
    for (right, name) in [
        ("SYS_CHROOT", "chroot"),
        ("SYS_TIME", "clock_settime"),
        ("SYS_MODULE", "finit_module"),
        ("SYS_BOOT", "reboot"),
        ("SYS_NICE", "mbind"),
        ("SYSLOG", "syslog"),
        ("PERFMON", "perf_event_open"),
        ("BPF", "bpf"),
        ("DAC_READ_SEARCH", "open_by_handle_at"),
        ("SYS_PTRACE", "kcmp"),
        ("SYS_PACCT", "acct"),
        ("SYS_TTY_CONFIG", "vhangup"),
    ] {
        assert_eq!(call(&by_default(Arch::X86_64, &[]), Arch::X86_64, name, 0), DENIED, "{name}");
        assert_eq!(call(&by_default(Arch::X86_64, &[right]), Arch::X86_64, name, 0), ALLOWED, "{name}");
    }
}

#[test]
fn numbers_that_are_nobodys() {
    let filter = by_default(Arch::X86_64, &[]);
    let ask = |arch, number| run(&filter, arch, number, [0; 6]);
    assert_eq!(ask(Arch::X86_64, 999), UNKNOWN, "newer than the table");
    assert_eq!(ask(Arch::X86_64, 0x4000_0000), UNKNOWN, "x32's read");
    assert_eq!(ask(Arch::X86_64, u32::MAX), UNKNOWN);
    assert_eq!(ask(Arch::Aarch64, 63), Action::KillProcess.code(), "a machine that this is not");
    let arm = by_default(Arch::Aarch64, &[]);
    assert_eq!(call(&arm, Arch::Arm, "set_tls", 0), ALLOWED);
    assert_eq!(run(&arm, Arch::Arm, 0x000f_0003, [0; 6]), UNKNOWN, "between the private ones");
}

#[test]
fn bytes_read_back_and_half_of_them_do_not() {
    let filter = by_default(Arch::X86_64, &[]);
    let bytes = filter.to_bytes();
    assert_eq!(Filter::from_bytes(&bytes), Some(filter));
    assert_eq!(Filter::from_bytes(&bytes[..bytes.len() - 3]), None);
    assert_eq!(Filter::from_bytes(&bytes[..4]), None);
    assert_eq!(Filter::from_bytes(&[]), None);
}

fn local(text: &str, capabilities: &[&str]) -> Result<(Policy, Vec<String>), String> {
    profile::parse(text.as_bytes(), &at(Arch::X86_64, &rights(capabilities)))
        .map_err(|error| error.to_string())
}

fn answer(text: &str, capabilities: &[&str], name: &str, arguments: [u64; 6]) -> u32 {
    let (policy, _) = local(text, capabilities).expect("a profile");
    let filter = compile::compile(&policy).expect("a program");
    run(&filter, Arch::X86_64, Arch::X86_64.number(name).expect("a call"), arguments)
}

#[test]
fn profiles_by_table() {
    let none = [0; 6];
    let forbid = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
        {"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":13},
        {"name":"chmod","action":"SCMP_ACT_KILL"},
        {"names":["fchmod"],"action":"SCMP_ACT_TRAP"},
        {"names":["fchown"],"action":"SCMP_ACT_LOG","args":null},
        {"names":["kill"],"action":"SCMP_ACT_ERRNO","args":[
            {"index":0,"value":1,"op":"SCMP_CMP_EQ"},{"index":1,"value":9,"op":"SCMP_CMP_GE"}]},
        {"names":["ioctl"],"action":"SCMP_ACT_ERRNO","args":[
            {"index":1,"value":7,"op":"SCMP_CMP_EQ"},{"index":1,"value":9,"op":"SCMP_CMP_EQ"}]},
        {"names":["clone"],"action":"SCMP_ACT_ERRNO","args":[
            {"index":0,"value":240,"valueTwo":16,"op":"SCMP_CMP_MASKED_EQ"}]},
        {"names":["reboot"],"action":"SCMP_ACT_ERRNO","excludes":{"caps":["CAP_SYS_BOOT"]}},
        {"names":["acct"],"action":"SCMP_ACT_ERRNO","includes":{"caps":["CAP_SYS_PACCT"]}},
        {"names":["sync"],"action":"SCMP_ACT_ERRNO","includes":{"arches":["arm64"]}},
        {"names":["syncfs"],"action":"SCMP_ACT_ERRNO","includes":{"arches":["amd64"],"minKernel":"6.1"}},
        {"names":["fsync"],"action":"SCMP_ACT_ERRNO","includes":{"minKernel":"6.2"}}]}"#;
    let with = |first, second| [first, second, 0, 0, 0, 0];
    let table = [
        ("read", none, ALLOWED),
        ("mkdir", none, 0x0005_000d),
        ("mkdirat", none, 0x0005_000d),
        ("chmod", none, 0),
        ("fchmod", none, 0x0003_0000),
        ("fchown", none, 0x7ffc_0000),
        ("kill", with(1, 9), DENIED),
        ("kill", with(1, 8), ALLOWED),
        ("kill", with(2, 9), ALLOWED),
        ("ioctl", with(0, 7), DENIED),
        ("ioctl", with(0, 9), DENIED),
        ("ioctl", with(0, 8), ALLOWED),
        ("clone", with(0x1f, 0), DENIED),
        ("clone", with(0x3f, 0), ALLOWED),
        ("reboot", none, DENIED),
        ("acct", none, ALLOWED),
        ("sync", none, ALLOWED),
        ("syncfs", none, DENIED),
        ("fsync", none, ALLOWED),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(answer(forbid, &[], name, arguments), expected, "{name} {arguments:?}");
    }
    let able = ["SYS_BOOT", "SYS_PACCT"];
    assert_eq!(answer(forbid, &able, "reboot", none), ALLOWED);
    assert_eq!(answer(forbid, &able, "acct", none), DENIED);
}

#[test]
fn an_unconditional_rule_is_the_strongest_and_the_defaults_own_say_nothing() {
    let text = r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"syscalls":[
        {"names":["socket"],"action":"SCMP_ACT_TRAP","args":[{"index":0,"value":2,"op":"SCMP_CMP_EQ"}]},
        {"names":["socket","read"],"action":"SCMP_ACT_ALLOW"},
        {"names":["write"],"action":"SCMP_ACT_ERRNO","errnoRet":38},
        {"names":["write"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2,"op":"SCMP_CMP_EQ"}]}]}"#;
    assert_eq!(answer(text, &[], "socket", [2, 0, 0, 0, 0, 0]), ALLOWED);
    assert_eq!(answer(text, &[], "write", [2, 0, 0, 0, 0, 0]), ALLOWED);
    assert_eq!(answer(text, &[], "write", [1, 0, 0, 0, 0, 0]), UNKNOWN);
}

#[test]
fn architectures_of_profiles() {
    let of = |text: &str| local(text, &[]).map(|(policy, _)| policy.architectures);
    let start = r#"{"defaultAction":"SCMP_ACT_ALLOW""#;
    assert_eq!(of(&format!("{start}}}")), Ok(vec![Arch::X86_64]));
    let listed = format!(r#"{start},"architectures":["SCMP_ARCH_X86","SCMP_ARCH_X32","SCMP_ARCH_S390X"]}}"#);
    assert_eq!(of(&listed), Ok(vec![Arch::X86_64, Arch::X86]));
    let map = r#""archMap":[{"architecture":"SCMP_ARCH_AARCH64","subArchitectures":["SCMP_ARCH_ARM"]},
                            {"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}]"#;
    assert_eq!(of(&format!("{start},{map}}}")), Ok(vec![Arch::X86_64, Arch::X86]));
    assert!(of(&format!(r#"{start},{map},"architectures":["SCMP_ARCH_X86"]}}"#)).is_err());
}

#[test]
fn what_cannot_be_honoured_is_named() {
    let entry = |rest: &str| format!(r#"{{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{{{rest}}}]}}"#);
    let table = [
        ("{".to_owned(), "not a profile in JSON"),
        (r#"{"defaultAction":"ALLOW"}"#.to_owned(), "defaultAction: \"ALLOW\" is not an action"),
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#.to_owned(), "defaultAction: SCMP_ACT_NOTIFY"),
        (entry(r#""names":[],"action":"SCMP_ACT_ERRNO""#), "syscalls[0]: no system call is named"),
        (entry(r#""name":"read","action":"deny""#), "syscalls[0].action: \"deny\""),
        (
            entry(
                r#""name":"read","action":"SCMP_ACT_ERRNO","args":[{"index":6,"value":0,"op":"SCMP_CMP_EQ"}]"#,
            ),
            "syscalls[0].args: there is no argument 6",
        ),
        (
            entry(r#""name":"read","action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":0,"op":"="}]"#),
            "syscalls[0].args: \"=\" is not a comparison",
        ),
        (
            entry(r#""name":"read","action":"SCMP_ACT_ERRNO","includes":{"minKernel":"new"}"#),
            "syscalls[0].includes.minKernel: \"new\"",
        ),
        (r#"{"defaultAction":"SCMP_ACT_ALLOW","flags":["FAST"]}"#.to_owned(), "flags: \"FAST\""),
        (
            r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["amd64"]}"#.to_owned(),
            "architectures: \"amd64\"",
        ),
    ];
    for (text, expected) in table {
        let refusal = local(&text, &[]).expect_err("is refused");
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    let (_, unknown) = local(&entry(r#""names":["read","fly"],"action":"SCMP_ACT_ERRNO""#), &[]).unwrap();
    assert_eq!(unknown, ["fly"]);
}

#[test]
fn requests_by_table() {
    let said = |kind: Option<ProfileType>, path: &str, legacy: &str, privileged: bool| {
        let context = v1::LinuxContainerSecurityContext {
            seccomp: kind.map(|kind| v1::SecurityProfile {
                profile_type: kind as i32,
                localhost_ref: path.to_owned(),
            }),
            seccomp_profile_path: legacy.to_owned(),
            privileged,
            ..Default::default()
        };
        match Wanted::of(Some(&context)) {
            Ok(Wanted::Unconfined) => "none".to_owned(),
            Ok(Wanted::Default) => "default".to_owned(),
            Ok(Wanted::File(path)) => path.display().to_string(),
            Err(error) => error.to_string(),
        }
    };
    use ProfileType::{Localhost, RuntimeDefault, Unconfined};
    assert_eq!(said(None, "", "", false), "none");
    assert_eq!(said(Some(Unconfined), "", "runtime/default", false), "none");
    assert_eq!(said(Some(RuntimeDefault), "", "", false), "default");
    assert_eq!(said(Some(RuntimeDefault), "", "", true), "none");
    assert_eq!(said(Some(Localhost), "/p/a.json", "", false), "/p/a.json");
    assert_eq!(said(Some(Localhost), "/p/a.json", "", true), "none");
    assert_eq!(said(None, "", "runtime/default", false), "default");
    assert_eq!(said(None, "", "docker/default", false), "default");
    assert_eq!(said(None, "", "localhost//p/a.json", false), "/p/a.json");
    assert!(said(Some(Localhost), "a.json", "", false).starts_with(&format!("{FIELD}: \"a.json\"")));
    assert!(said(Some(Localhost), "", "", false).starts_with(&format!("{FIELD}: ")));
}

#[test]
fn a_file_that_is_missing_or_broken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.json");
    let context = v1::LinuxContainerSecurityContext {
        seccomp: Some(v1::SecurityProfile {
            profile_type: ProfileType::Localhost as i32,
            localhost_ref: path.display().to_string(),
        }),
        ..Default::default()
    };
    let refusal = || filter(Some(&context), &BTreeSet::new()).expect_err("is refused").to_string();
    let missing = refusal();
    assert!(
        missing.contains(&path.display().to_string()) && missing.contains("create the file"),
        "{missing}"
    );
    std::fs::write(&path, "[]").unwrap();
    let broken = refusal();
    assert!(
        broken.contains(&path.display().to_string()) && broken.contains("not a profile in JSON"),
        "{broken}"
    );
}

#[test]
fn a_program_that_the_kernel_would_not_take_is_refused() {
    let policy = |conditions_a_call: u64| {
        let names = (0_u64..).zip(default::ALWAYS.split_whitespace());
        let rules = names.flat_map(|(number, name)| {
            (0..conditions_a_call).map(move |value| Rule {
                names: vec![name.to_owned()],
                conditions: vec![Condition { argument: 0, test: Test::Equal(number * 10 + value) }],
                action: Action::Allow,
            })
        });
        let (rules, default) = (rules.collect(), Action::Errno(EPERM));
        Policy { architectures: vec![Arch::X86_64], rules, default, flags: 0 }
    };
    assert!(compile::compile(&policy(1)).is_ok());
    let refusal = compile::compile(&policy(4)).expect_err("is too long").to_string();
    assert!(refusal.contains("the kernel accepts at most 4096"), "{refusal}");
}

/// Evaluates a policy directly, without a program.
fn meaning(policy: &Policy, arch: Arch, number: u32, arguments: [u64; 6]) -> u32 {
    let holds = |condition: &Condition| {
        let argument = arguments[usize::from(condition.argument)];
        match condition.test {
            Test::Equal(value) => argument == value,
            Test::NotEqual(value) => argument != value,
            Test::Less(value) => argument < value,
            Test::LessOrEqual(value) => argument <= value,
            Test::Greater(value) => argument > value,
            Test::GreaterOrEqual(value) => argument >= value,
            Test::Masked { mask, value } => argument & mask == value & mask,
        }
    };
    let named: Vec<&Rule> = policy
        .rules
        .iter()
        .filter(|rule| rule.names.iter().any(|name| arch.number(name) == Some(number)))
        .collect();
    let numbers = policy.rules.iter().flat_map(|rule| &rule.names).filter_map(|name| arch.number(name));
    let action = match numbers.max() {
        Some(newest) if number > newest && !policy.default.is_permissive() => Action::Errno(ENOSYS),
        _ => named
            .iter()
            .find(|rule| rule.conditions.iter().all(holds))
            .map_or(policy.default, |rule| rule.action),
    };
    action.code()
}

/// Numbers around which comparisons of halves and wholes go wrong.
fn edge() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![
        0,
        1,
        2,
        0xffff_fffe,
        0xffff_ffff,
        1 << 32,
        (1 << 32) + 1,
        u64::MAX - 1,
        u64::MAX,
    ])
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let test = (edge(), edge(), 0..7).prop_map(|(value, mask, kind)| match kind {
        0 => Test::Equal(value),
        1 => Test::NotEqual(value),
        2 => Test::Less(value),
        3 => Test::LessOrEqual(value),
        4 => Test::Greater(value),
        5 => Test::GreaterOrEqual(value),
        _ => Test::Masked { mask, value },
    });
    let condition = (0..6_u8, test).prop_map(|(argument, test)| Condition { argument, test });
    let action =
        prop::sample::select(vec![Action::Allow, Action::Errno(5), Action::Trap, Action::KillThread]);
    let names: Vec<String> = default::ALWAYS.split_whitespace().map(str::to_owned).collect();
    let names = prop::collection::vec(prop::sample::select(names), 1..40);
    let rule = (names, prop::collection::vec(condition, 0..4), action)
        .prop_map(|(names, conditions, action)| Rule { names, conditions, action });
    prop::collection::vec(rule, 0..8)
}

proptest! {
    #[test]
    fn a_program_means_what_its_policy_says(
        rules in rules(),
        default in prop::sample::select(vec![Action::Allow, Action::Errno(EPERM), Action::KillProcess]),
        number in 0..500_u32,
        arguments in prop::array::uniform6(edge()),
    ) {
        let policy = Policy { architectures: vec![Arch::X86_64, Arch::X86], rules, default, flags: 0 };
        let Ok(filter) = compile::compile(&policy) else { return Ok(()) };
        for arch in [Arch::X86_64, Arch::X86] {
            prop_assert_eq!(run(&filter, arch, number, arguments), meaning(&policy, arch, number, arguments));
        }
    }
}
