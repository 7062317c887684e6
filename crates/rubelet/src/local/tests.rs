//! Which process answers while agents and commands come and go.

use std::path::Path;

use clap::Parser as _;
use rubelet_runtime::synthetic::{ContainerSpec, Handle, PodSpec, Profile, SyntheticRuntime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::*;
use crate::pods::{Pods, Row};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    local: LocalArgs,
}

fn args(folder: &Path) -> LocalArgs {
    Line::parse_from(["x", "--data-dir", folder.to_str().expect("a text")]).local
}

/// A folder that had an agent with the pod `shop/web`, in this runtime.
async fn folder_of_an_agent() -> (tempfile::TempDir, Handle) {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(folder.path().join("s")).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container(ContainerSpec::new("c"))));
    let last = LastAgent {
        runtime_endpoint: Some(runtime.endpoint()),
        pod_logs: folder.path().join("logs"),
        node_name: "n".to_owned(),
        groups: None,
    };
    last.write(folder.path()).expect("written");
    (folder, runtime)
}

async fn pods(args: &LocalArgs, need: Need) -> Vec<String> {
    let asking = async || Pods::of(&args.reach(need).await?).await;
    let pods = again_if_ended(asking, Unreachable::has_ended).await.expect("somebody answers");
    pods.rows().iter().map(Row::full_name).collect()
}

/// An agent that identifies itself to the first few clients, and then ends.
async fn ends_after(answers: usize, listener: UnixListener, lock: Lock) {
    for _ in 0..answers {
        // The first connection only checks whether anything listens.
        let _ = listener.accept().await.expect("a client");
        let (mut stream, _) = listener.accept().await.expect("a client");
        let mut question = [0; 1024];
        let read = stream.read(&mut question).await.expect("a question");
        assert!(question[..read].starts_with(b"GET /about "), "{}", String::from_utf8_lossy(&question));
        let about = r#"{"runtimeEndpoint":"x","runtime":"x","podLogs":"/x","nodeName":"n"}"#;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{about}", about.len());
        stream.write_all(answer.as_bytes()).await.expect("it is read");
    }
    let _ = listener.accept().await.expect("a client");
    // From now on clients get no answer, and a moment later the agent is gone.
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), listener.accept()).await;
    drop((listener, lock));
}

#[tokio::test]
async fn an_agent_that_ends_while_it_is_asked_is_no_error() {
    for answers in [0, 1] {
        for need in [Need::Look, Need::Exec, Need::Folder] {
            let (folder, _runtime) = folder_of_an_agent().await;
            let args = args(folder.path());
            let lock = args.place.try_take(Holder::Agent).expect("usable").expect("free");
            let listener = UnixListener::bind(folder.path().join("agent.sock")).expect("bound");
            let (pods, ()) = tokio::join!(pods(&args, need), ends_after(answers, listener, lock));
            assert_eq!(pods, ["shop/web"], "{answers} {need:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_of_its_own_answers_though_a_command_has_the_folder() {
    let (folder, _runtime) = folder_of_an_agent().await;
    let args = args(folder.path());
    let lock = args.place.try_take(Holder::Command).expect("usable").expect("free");
    for need in [Need::Look, Need::Exec] {
        assert_eq!(pods(&args, need).await, ["shop/web"], "{need:?}");
    }
    let begun = tokio::time::Instant::now();
    let done = async {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        drop(lock);
    };
    let (pods, ()) = tokio::join!(pods(&args, Need::Folder), done);
    assert_eq!(pods, ["shop/web"]);
    assert!(begun.elapsed().as_secs() >= 60, "who ends pods waits");
}

/// The embedded runtime of a command answers commands that only read; that of an agent does not, since the agent itself
/// knows more.
#[tokio::test]
async fn the_embedded_runtime_of_a_command_answers_those_who_look() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runtime.sock");
    let runtime = SyntheticRuntime::new(Profile::Ctd2).serve(path).await.expect("served");
    runtime.world(|world| world.add_pod(PodSpec::new("shop", "web").container(ContainerSpec::new("c"))));
    std::fs::create_dir(folder.path().join("sandboxes")).expect("made");
    let args = args(folder.path());
    let _lock = args.place.try_take(Holder::Command).expect("usable").expect("free");
    assert_eq!(pods(&args, Need::Look).await, ["shop/web"]);
}
