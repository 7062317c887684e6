//! Commands in running containers.

use rubelet_cri::v1;
use tonic::Code;

use crate::cri::Cri;

pub(crate) async fn a_command_returns_output_and_code(cri: Cri) {
    let mut config = cri.container_config("exec sleep 3600");
    config.envs.push(v1::KeyValue { key: "WORD".to_owned(), value: b"hello".to_vec() });
    let (_, id, _) = cri.pod_with_config(config).await;
    cri.start(&id).await.expect("starts");
    let answer = cri.exec(&id, "echo $WORD; echo no >&2; exit 7", 0).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "hello\n");
    assert_eq!(String::from_utf8_lossy(&answer.stderr), "no\n");
    assert_eq!(answer.exit_code, 7);
    let killed = cri.exec(&id, "kill -9 $$", 0).await.expect("an answer");
    assert_eq!(killed.exit_code, 137);
}

pub(crate) async fn a_command_that_takes_too_long_is_ended(cri: Cri) {
    let (_, id, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    let status = cri.exec(&id, "sleep 3599", 1).await.expect_err("too slow");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let seen =
        cri.exec(&id, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '", 0).await.expect("an answer");
    assert!(!String::from_utf8_lossy(&seen.stdout).contains("sleep 3599 "), "the command is gone");
    assert_eq!(cri.status(&id).await.expect("a status").state(), v1::ContainerState::ContainerRunning);
}

pub(crate) async fn a_command_needs_a_running_container(cri: Cri) {
    let (_, id, _) = cri.pod_with("true").await;
    cri.exec(&id, "true", 0).await.expect_err("not started");
    cri.start(&id).await.expect("starts");
    cri.exited(&id).await;
    cri.exec(&id, "true", 0).await.expect_err("over");
    let nobody = cri.exec("there-is-no-such-container", "true", 0).await.expect_err("nobody");
    assert_eq!(nobody.code(), Code::NotFound);
}

pub(crate) async fn a_command_that_is_not_there_is_an_error(cri: Cri) {
    let (_, id, _) = cri.pod_with("exec sleep 3600").await;
    cri.start(&id).await.expect("starts");
    let request = v1::ExecSyncRequest {
        container_id: id.clone(),
        cmd: vec!["/there/is/no/such/program".to_owned()],
        timeout: 0,
    };
    let status = cri.runtime().await.exec_sync(request).await.expect_err("cannot run");
    assert!(status.message().contains("/there/is/no/such/program"), "{status}");
}
