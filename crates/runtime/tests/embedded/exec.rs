//! Commands in containers: they are what the container's own program is, and end with whoever asked for them.

use std::time::Duration;

use rubelet_cri::v1;
use v1::security_profile::ProfileType;

use crate::cri::Cri;
use crate::with_runtime;

/// Everything that a program is given, as it sees it itself.
const SELF: &str = "id -u; id -g; id -G; pwd; echo $HOME $WORD; umask; \
     cat /proc/self/cgroup /proc/self/oom_score_adj; \
     grep -E '^(Cap|NoNewPrivs|Seccomp:|SigBlk|SigIgn)' /proc/self/status; \
     for kind in mnt pid net ipc uts cgroup user; do readlink /proc/self/ns/$kind; done; \
     ls /proc/self/fd; readlink /proc/self/fd/0; echo done";

fn config(cri: &Cri, user: Option<i64>, no_new_privs: bool) -> v1::ContainerConfig {
    let mut config = cri.container_config(&format!("({SELF}); exec sleep 3600"));
    config.working_dir = "/tmp".to_owned();
    config.envs.push(v1::KeyValue { key: "WORD".to_owned(), value: b"hello".to_vec() });
    let linux = config.linux.get_or_insert_default();
    linux.resources.get_or_insert_default().oom_score_adj = 700;
    let context = linux.security_context.get_or_insert_default();
    context.run_as_user = user.map(|value| v1::Int64Value { value });
    context.run_as_group = user.map(|value| v1::Int64Value { value: value + 1 });
    context.supplemental_groups = vec![4321];
    context.no_new_privs = no_new_privs;
    let profile_type = ProfileType::RuntimeDefault as i32;
    context.seccomp = Some(v1::SecurityProfile { profile_type, ..Default::default() });
    config
}

/// The lines that a running container has written, up to its last one.
async fn written(cri: &Cri, id: &str) -> Vec<String> {
    loop {
        let status = cri.status(id).await.expect("a status");
        let lines = cri.log(&status).await;
        if lines.iter().any(|line| line.ends_with(" done")) {
            let text = |line: &String| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
            return lines.iter().map(text).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn commands_that_never_end_leave_room_for_those_that_will_and_for_other_containers() {
    with_runtime("execroom", None, async |_, cri| {
        let (_, busy, _) = cri.pod_with("exec sleep 3600").await;
        let (_, other, _) = cri.pod_with("exec sleep 3600").await;
        for id in [&busy, &other] {
            cri.start(id).await.expect("starts");
        }
        let request = v1::ExecSyncRequest {
            container_id: busy.clone(),
            cmd: vec!["sleep".to_owned(), "3594".to_owned()],
            timeout: 0,
        };
        let client = cri.runtime().await;
        // More than may run at once, on any machine.
        let endless = (0..200).map(|_| {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.exec_sync(request).await }
        });
        let endless = futures_util::future::join_all(endless);
        let looking = async {
            let count = "grep -lz '^3594$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l";
            let mut before = 0;
            loop {
                let told = cri.exec(&busy, count, 20).await.expect("it does not wait for those");
                let now: u32 = String::from_utf8_lossy(&told.stdout).trim().parse().expect("a number");
                if now == before && now > 0 {
                    break;
                }
                before = now;
            }
            cri.exec(&other, "true", 0).await.expect("is run");
        };
        tokio::select! {
            ended = endless => panic!("they end: {ended:?}"),
            () = looking => {}
        }
    });
}

#[test]
fn of_the_output_no_more_comes_back_than_was_wanted() {
    with_runtime("execlong", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 3";
        let whole = cri.exec(&id, script, 0).await.expect("an answer");
        assert_eq!((whole.stdout.len(), whole.stderr.len(), whole.exit_code), (3_000_000, 3_000_000, 3));
        let mut request = tonic::Request::new(v1::ExecSyncRequest {
            container_id: id.clone(),
            cmd: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            timeout: 0,
        });
        request.metadata_mut().insert(rubelet_cri::OUTPUT_LIMIT, 10_000.into());
        let part = cri.runtime().await.exec_sync(request).await.expect("an answer").into_inner();
        assert_eq!((part.stdout.len(), part.stderr.len(), part.exit_code), (10_000, 10_000, 3));
    });
}

#[test]
fn a_command_is_what_the_containers_own_program_is() {
    with_runtime("execself", None, async |_, cri| {
        for (user, no_new_privs) in [(None, false), (Some(1234), false), (Some(1234), true)] {
            let (_, id, _) = cri.pod_with_config(config(&cri, user, no_new_privs)).await;
            cri.start(&id).await.expect("starts");
            let own = written(&cri, &id).await;
            assert_eq!(own[0], user.unwrap_or(0).to_string(), "{own:?}");
            let told = cri.exec(&id, &format!("({SELF})"), 0).await.expect("an answer");
            let command: Vec<&str> = std::str::from_utf8(&told.stdout).expect("text").lines().collect();
            assert_eq!(command, own, "{}", String::from_utf8_lossy(&told.stderr));
        }
    });
}

async fn sees(cri: &Cri, id: &str, word: &str) -> bool {
    let look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '";
    let seen = cri.exec(id, look, 0).await.expect("an answer");
    String::from_utf8_lossy(&seen.stdout).contains(word)
}

#[test]
fn a_command_whose_caller_hangs_up_is_ended() {
    with_runtime("exechup", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let caller = tokio::spawn({
            let (cri, id) = (cri.clone(), id.clone());
            async move { cri.exec(&id, "sleep 3596; true", 0).await }
        });
        while !sees(&cri, &id, "sleep 3596 ").await {}
        caller.abort();
        while sees(&cri, &id, "sleep 3596 ").await {}
    });
}

#[test]
fn commands_at_once_are_answered_each_with_its_own() {
    with_runtime("execmany", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let asked: Vec<_> = (0..60)
            .map(|number| {
                let (cri, id) = (cri.clone(), id.clone());
                let script = format!("echo {number}; echo -{number} >&2; exit {number}");
                tokio::spawn(async move { (number, cri.exec(&id, &script, 0).await.expect("an answer")) })
            })
            .collect();
        for asked in asked {
            let (number, told) = asked.await.expect("a task");
            assert_eq!(told.exit_code, number);
            assert_eq!(told.stdout, format!("{number}\n").into_bytes());
            assert_eq!(told.stderr, format!("-{number}\n").into_bytes());
        }
        // Nothing is left of them: the shim has reaped what it started.
        let left = cri.exec(&id, "ls -d /proc/[0-9]* | wc -l", 0).await.expect("an answer");
        let left: u32 = String::from_utf8_lossy(&left.stdout).trim().parse().expect("a number");
        assert!(left <= 4, "the first process, a shell, ls and wc: {left}");
    });
}

#[test]
fn a_command_is_answered_when_its_container_ends() {
    with_runtime("execend", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let caller = tokio::spawn({
            let (cri, id) = (cri.clone(), id.clone());
            async move { cri.exec(&id, "sleep 3595; true", 0).await }
        });
        while !sees(&cri, &id, "sleep 3595 ").await {}
        cri.stop(&id, 0).await.expect("stops");
        assert_eq!(caller.await.expect("a task").expect("an answer").exit_code, 137);
        assert_eq!(cri.exited(&id).await.exit_code, 137);
    });
}

#[test]
fn a_word_with_a_nul_in_it_is_refused() {
    with_runtime("execnul", None, async |_, cri| {
        let (_, id, _) = cri.pod_with("exec sleep 3600").await;
        cri.start(&id).await.expect("starts");
        let cmd = vec!["echo".to_owned(), "a\0b".to_owned()];
        let request = v1::ExecSyncRequest { container_id: id, cmd, timeout: 0 };
        let refused = cri.runtime().await.exec_sync(request).await.expect_err("is refused");
        assert!(refused.message().starts_with("cmd: "), "{refused}");
    });
}

/// A descriptor of ours that leads out of the container would lead a program's path there, too.
#[test]
fn no_path_of_a_command_leads_through_a_descriptor_of_the_runtime() {
    with_runtime("execpath", None, async |_, cri| {
        let (_, id, _) = cri.pod_with_config(config(&cri, None, false)).await;
        cri.start(&id).await.expect("starts");
        for number in 3..40 {
            let path = format!("/proc/self/fd/{number}/../../../../../../../../bin/sh");
            let error = cri.exec_words(&id, [&path, "-c", "true"], 0).await.expect_err(&path);
            assert!(error.message().contains("failed to run"), "{path}: {error}");
        }
    });
}
