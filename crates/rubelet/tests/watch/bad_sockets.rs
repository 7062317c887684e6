//! Everything that can be found at a path instead of a runtime: each gets a short error that says what to do, and exit
//! code 3.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;

use crate::program::{rubelet, run};

/// The error of `rubelet watch` for a socket.
async fn complaint(socket: &Path) -> String {
    let (code, said) = run(rubelet(&["watch", "--runtime-endpoint", &socket.display().to_string()])).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.lines().count() <= 2, "one or two lines: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[tokio::test]
async fn a_path_where_nothing_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let said = complaint(&dir.path().join("none.sock")).await;
    assert!(said.contains("there is no socket at") && said.contains("is the runtime running"), "{said}");
}

#[tokio::test]
async fn a_plain_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, "hello").expect("written");
    let said = complaint(&file).await;
    assert!(said.contains("is not a socket"), "{said}");
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("dead.sock");
    drop(UnixListener::bind(&socket).expect("bound"));
    let said = complaint(&socket).await;
    assert!(said.contains("nobody listens on"), "{said}");
}

#[tokio::test]
async fn a_socket_that_speaks_something_else() {
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("garbage.sock");
    let listener = UnixListener::bind(&socket).expect("bound");
    let server = tokio::spawn(async move {
        loop {
            let (mut peer, _) = listener.accept().await.expect("a peer");
            // The client may hang up first, having seen enough.
            let _ = peer.write_all(b"220 mail.example.org ESMTP\r\n").await;
        }
    });
    let said = complaint(&socket).await;
    assert!(said.contains("does not speak gRPC"), "{said}");
    server.abort();
}

#[tokio::test]
async fn a_socket_that_we_may_not_use() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let socket = dir.path().join("private.sock");
    let _listener = UnixListener::bind(&socket).expect("bound");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).expect("ours");
    // A copy that everybody may run: the build folder may be private.
    let program = dir.path().join("rubelet");
    std::fs::copy(env!("CARGO_BIN_EXE_rubelet"), &program).expect("copied");
    let endpoint = socket.display().to_string();
    let is_root = std::process::Command::new("id").arg("-u").output().expect("id runs").stdout == b"0\n";
    let mut command = if is_root {
        let mut command = tokio::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command
    } else {
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).expect("ours");
        tokio::process::Command::new(&program)
    };
    command.args(["watch", "--runtime-endpoint", &endpoint]);
    let (code, said) = run(command).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no permission to use") && said.contains("run as root"), "{said}");
}

#[tokio::test]
async fn endpoints_that_make_no_sense_are_a_wrong_command_line() {
    for endpoint in ["tcp://127.0.0.1:1", "relative.sock", "unix://"] {
        let (code, said) = run(rubelet(&["watch", "--runtime-endpoint", endpoint])).await;
        assert_eq!(code, Some(2), "{endpoint}: {said}");
        assert!(said.contains("--runtime-endpoint"), "{endpoint}: {said}");
    }
}

#[tokio::test]
async fn the_environment_names_the_endpoint_too() {
    let mut command = rubelet(&["watch"]);
    command.env("CONTAINER_RUNTIME_ENDPOINT", "unix:///nowhere/at/all.sock");
    let (code, said) = run(command).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("/nowhere/at/all.sock"), "{said}");
}
