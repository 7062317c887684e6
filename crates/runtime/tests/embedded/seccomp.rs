//! Filters on system calls, as the kernel enforces them: on a container's program and on commands in it.

use rubelet_cri::v1;
use v1::security_profile::ProfileType;

use crate::cri::Cri;
use crate::with_runtime;

/// Whether there is a filter, and what becomes of calls that the default leaves out.
const PROBE: &str = "grep ^Seccomp: /proc/self/status | cut -f2; \
     unshare -U true && echo unshared || echo refused; \
     mkdir -p /tmp/m && mount -t tmpfs none /tmp/m && echo mounted || echo refused";

fn confined(cri: &Cri, script: &str, kind: ProfileType, path: &str) -> v1::ContainerConfig {
    let mut config = cri.container_config(script);
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.seccomp = Some(v1::SecurityProfile { profile_type: kind as i32, localhost_ref: path.to_owned() });
    config
}

fn with_right(mut config: v1::ContainerConfig, name: &str) -> v1::ContainerConfig {
    let context = config.linux.get_or_insert_default().security_context.get_or_insert_default();
    context.capabilities.get_or_insert_default().add_capabilities.push(name.to_owned());
    config
}

#[test]
fn the_default_refuses_what_a_right_brings_back() {
    with_runtime("scdefault", None, async |_, cri| {
        let default = || confined(&cri, PROBE, ProfileType::RuntimeDefault, "");
        assert_eq!(cri.output(default()).await, ["2", "refused", "refused"]);
        assert_eq!(cri.output(with_right(default(), "SYS_ADMIN")).await, ["2", "unshared", "mounted"]);
        let unconfined = || confined(&cri, PROBE, ProfileType::Unconfined, "");
        assert_eq!(
            cri.output(unconfined()).await,
            ["0", "unshared", "refused"],
            "the last for want of a right"
        );
        assert_eq!(cri.output(with_right(unconfined(), "SYS_ADMIN")).await, ["0", "unshared", "mounted"]);
    });
}

#[test]
fn a_filter_holds_whoever_runs_and_takes_no_rights_away() {
    with_runtime("scuser", None, async |_, cri| {
        let script = "grep -E '^(Seccomp|NoNewPrivs|CapEff|CapPrm|CapBnd|CapInh|CapAmb):' /proc/self/status";
        for no_new_privs in [false, true] {
            for user in [None, Some(v1::Int64Value { value: 1234 })] {
                let with = |kind| {
                    let mut config = confined(&cri, script, kind, "");
                    let context =
                        config.linux.get_or_insert_default().security_context.get_or_insert_default();
                    context.no_new_privs = no_new_privs;
                    context.run_as_user = user;
                    config
                };
                let free = cri.output(with(ProfileType::Unconfined)).await;
                let filtered = cri.output(with(ProfileType::RuntimeDefault)).await;
                let expected: Vec<String> =
                    free.iter().map(|line| line.replace("Seccomp:\t0", "Seccomp:\t2")).collect();
                assert_eq!(filtered, expected, "the same but for the filter: {no_new_privs} {user:?}");
                assert!(
                    filtered.contains(&format!("NoNewPrivs:\t{}", u8::from(no_new_privs))),
                    "{filtered:?}"
                );
                assert!(filtered.contains(&"CapBnd:\t00000000a80425fb".to_owned()), "{filtered:?}");
                let effective = if user.is_some() { "0000000000000000" } else { "00000000a80425fb" };
                assert!(filtered.contains(&format!("CapEff:\t{effective}")), "{filtered:?}");
            }
        }
    });
}

#[test]
fn commands_have_the_filter_of_their_container() {
    with_runtime("scexec", None, async |_, cri| {
        let ask = |id: String| {
            let cri = cri.clone();
            async move {
                let told = cri.exec(&id, PROBE, 0).await.expect("an answer");
                String::from_utf8_lossy(&told.stdout).into_owned()
            }
        };
        let config = confined(&cri, "exec sleep 3600", ProfileType::RuntimeDefault, "");
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        assert_eq!(ask(id).await, "2\nrefused\nrefused\n");
        let free = with_right(confined(&cri, "exec sleep 3600", ProfileType::Unconfined, ""), "SYS_ADMIN");
        let (_, id, _) = cri.pod_with_config(free).await;
        cri.start(&id).await.expect("starts");
        assert_eq!(ask(id).await, "0\nunshared\nmounted\n");
    });
}

#[test]
fn a_profile_from_a_file_is_enforced_and_a_bad_one_named() {
    with_runtime("sclocal", None, async |runtime, cri| {
        let path = runtime.dir().join("profile.json");
        let name = path.display().to_string();
        let script = "mkdir /tmp/x && echo made || echo refused; touch /tmp/y && echo touched";
        let local = || confined(&cri, script, ProfileType::Localhost, &name);
        let forbid = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
            {"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}"#;
        std::fs::write(&path, forbid).expect("a file");
        assert_eq!(cri.output(local()).await, ["refused", "touched"]);

        std::fs::write(&path, "{").expect("a file");
        let sandbox = cri.pod_config();
        let pod = cri.run_pod(&sandbox).await.expect("a pod");
        let broken = cri.create(&pod, &sandbox, &local()).await.expect_err("is refused");
        assert!(broken.message().contains(&name) && broken.message().contains("JSON"), "{broken}");
        std::fs::remove_file(&path).expect("a file");
        let missing = cri.create(&pod, &sandbox, &local()).await.expect_err("is refused");
        assert!(missing.message().contains(&format!("cannot read the profile {name}")), "{missing}");
    });
}

/// The filter comes last of all: a profile that allows a program's own calls is enough for it.
#[test]
fn a_profile_need_not_allow_what_the_runtime_does() {
    with_runtime("scnarrow", None, async |runtime, cri| {
        let path = runtime.dir().join("profile.json");
        let forbid = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"action":"SCMP_ACT_KILL_PROCESS",
            "names":["capset","capget","prctl","seccomp","setresuid","setgroups","setsid","setns","close_range"]}]}"#;
        std::fs::write(&path, forbid).expect("a file");
        let config =
            confined(&cri, "echo runs; exec sleep 3600", ProfileType::Localhost, &path.display().to_string());
        let (_, id, _) = cri.pod_with_config(config).await;
        cri.start(&id).await.expect("starts");
        let told = cri.exec(&id, "grep -c '^Seccomp:.*2' /proc/self/status", 0).await.expect("an answer");
        assert_eq!((told.exit_code, told.stdout.as_slice()), (0, &b"1\n"[..]));
    });
}
