//! Commands next to an agent, as programs, on a synthetic runtime.

#[path = "../synthetic_agent/mod.rs"]
mod synthetic_agent;

use std::process::{Output, Stdio};
use std::time::Duration;

use rubelet_runtime::synthetic::{Op, Profile};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::Command;

use synthetic_agent::{Agent, Node};

/// This is long because it only matters when something fails to happen.
const PATIENCE: Duration = Duration::from_secs(120);

const WEB: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: web-1}\nspec:\n  containers:\n  - {name: c, image: busybox}\n";

impl Agent {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
        command
            .args(args)
            .args(["--data-dir", &self.data()])
            .env_remove("CONTAINER_RUNTIME_ENDPOINT")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end, and returns its exit code and the text of both streams.
    async fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let running = self.command(args).output();
        let Output { status, stdout, stderr } =
            tokio::time::timeout(PATIENCE, running).await.expect("it ends").expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
        (status.code(), text(stdout), text(stderr))
    }

    /// Returns the first line and the body of the answer from the agent's socket, once there is one.
    async fn get(&self, path: &str) -> (String, String) {
        let connecting = async {
            loop {
                if let Ok(stream) = UnixStream::connect(self.socket()).await {
                    return stream;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut stream = tokio::time::timeout(PATIENCE, connecting).await.expect("it listens");
        let question = format!("GET {path} HTTP/1.1\r\nhost: agent\r\nconnection: close\r\n\r\n");
        stream.write_all(question.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    /// Waits until the answer to a request satisfies `holds`.
    async fn until(&self, path: &str, holds: impl Fn(&str, &str) -> bool) {
        let asking = async {
            loop {
                let (head, body) = self.get(path).await;
                if holds(&head, &body) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("never, of {path}"));
    }
}

/// A closed terminal is no reason to leave anything unfinished.
#[tokio::test]
async fn an_agent_whose_terminal_is_closed_ends_as_one_that_is_told_to() {
    let mut agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    agent.until("/readyz", |_, body| body == "ok").await;
    agent.signal("-HUP");
    let ended = tokio::time::timeout(PATIENCE, agent.child.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
    assert!(!agent.socket().exists());
}

/// An agent that returns while its runtime does not list must not be taken for one without pods.
#[tokio::test]
async fn an_agent_that_has_not_looked_yet_is_not_believed() {
    let mut agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    std::fs::write(agent.manifests().join("pods/web.yaml"), WEB).expect("written");
    agent.until("/views/web-1", |head, body| head.ends_with("200 OK") && body.contains("syncing")).await;
    let logs = agent.manifests().join("logs/default_web-node_web-1/c");
    std::fs::create_dir_all(&logs).expect("made");
    std::fs::write(logs.join("0.log"), "2026-08-01T12:00:00Z stdout F hello\n").expect("written");
    let mut following = agent.command(&["logs", "-f", "web"]);
    let mut reader = following.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut shown = [0; 6];
    let reading = reader.stdout.as_mut().expect("a pipe").read_exact(&mut shown);
    tokio::time::timeout(PATIENCE, reading).await.expect("it follows").expect("it is shown");
    assert_eq!(&shown, b"hello\n");

    agent.signal("-TERM");
    agent.child.wait().await.expect("it ends");
    let fault = agent.node.runtime.faults().on(Op::ListPodSandbox).hang();
    agent.child = synthetic_agent::spawn(agent.manifests(), &agent.node, &[]);
    agent.until("/livez", |head, _| head.ends_with("200 OK")).await;
    assert!(agent.get("/views/web-1").await.0.ends_with("503 Service Unavailable"));
    // The runtime's failure is not the agent's fault, and restarting the agent would not fix it.
    assert_eq!(agent.get("/healthz").await, ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned()));
    let (head, body) = agent.get("/readyz").await;
    assert!(head.ends_with("500 Internal Server Error") && body.ends_with("readyz check failed\n"), "{body}");

    let (code, out, err) = agent.run(&["ps"]).await;
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert_eq!(
        err,
        "the agent does not know all of its pods yet: the pods on this machine have not been listed yet\n"
    );
    let (code, out, err) = agent.run(&["stop", "--all"]).await;
    assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
    assert!(err.contains("there may be more;") && !err.contains("no pods are running"), "{err}");
    assert_eq!(reader.try_wait().expect("ours"), None, "it goes on");

    drop(fault);
    agent.node.runtime.faults().clear();
    agent.until("/readyz", |_, body| body == "ok").await;
    assert_eq!(
        agent.run(&["ps", "-o", "name"]).await,
        (Some(0), "default/web-node\n".to_owned(), String::new())
    );
    let (code, out, _) = agent.run(&["stop", "--all"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "default/web-node stopped\n"));
    let ended = tokio::time::timeout(PATIENCE, reader.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
}

/// The protocol of systemd's `Type=notify`: the agent reports that it has started, that it is alive, how it is, and
/// that it ends.
#[tokio::test]
async fn a_service_manager_is_told_how_the_agent_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("notify");
    let heard = tokio::net::UnixDatagram::bind(&socket).expect("bound");
    let until = async |wanted: &str| {
        let hearing = async {
            let mut buffer = [0; 1024];
            loop {
                let length = heard.recv(&mut buffer).await.expect("heard");
                if String::from_utf8_lossy(&buffer[..length]).starts_with(wanted) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.unwrap_or_else(|_| panic!("never {wanted}"));
    };
    let node = Node::new(Profile::Ctd2).await;
    let environment = [("NOTIFY_SOCKET", socket.as_os_str()), ("WATCHDOG_USEC", "200000".as_ref())];
    let mut agent = Agent::start_with(node, &environment).await;
    for news in ["READY=1", "STATUS=no pods", "WATCHDOG=1"] {
        until(news).await;
    }
    std::fs::write(agent.manifests().join("pods/web.yaml"), WEB).expect("written");
    until("STATUS=1 pod: 1 ok").await;
    until("WATCHDOG=1").await;
    agent.signal("-TERM");
    until("STOPPING=1").await;
    let ended = tokio::time::timeout(PATIENCE, agent.child.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(0));
}
