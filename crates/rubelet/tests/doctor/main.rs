//! `rubelet doctor`, as a program, on runtimes that are ill in every way that it knows.

mod agent;

use std::process::Stdio;
use std::time::Duration;

use rubelet_runtime::synthetic::{Exit, Handle, Op, PodSpec, Profile, SyntheticRuntime};
use serde_json::Value;
use tokio::process::Command;

/// Long, since it only matters when something does not happen.
const PATIENCE: Duration = Duration::from_secs(120);

struct Node {
    runtime: Handle,
    _folder: tempfile::TempDir,
}

impl Node {
    /// A runtime with two pods.
    async fn new(profile: Profile) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = SyntheticRuntime::new(profile).serve(folder.path().join("s")).await.expect("served");
        runtime.world(|world| {
            for name in ["web", "db"] {
                world.add_pod(PodSpec::new("shop", name).container("main"));
            }
        });
        Self { runtime, _folder: folder }
    }

    async fn doctor(&self, more: &[&str]) -> (Option<i32>, Value) {
        let endpoint = self.runtime.endpoint();
        let mut args = vec!["doctor", "-o", "json", "--for", "4s", "--runtime-endpoint", &endpoint];
        args.extend(more);
        run(&args).await
    }
}

async fn run(args: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    command.args(args).env_remove("CONTAINER_RUNTIME_ENDPOINT").stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it runs");
    let said = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    (output.status.code(), said)
}

/// The names of what was found, and the evidence of the first.
fn names(said: &Value) -> Vec<&str> {
    let findings = said["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["name"].as_str().expect("a name")).collect()
}

fn evidence(said: &Value) -> &str {
    said["findings"][0]["evidence"].as_str().expect("a text")
}

#[tokio::test]
async fn a_runtime_that_is_well() {
    let node = Node::new(Profile::Ctd2).await;
    let (code, said) = node.doctor(&[]).await;
    assert_eq!((code, names(&said)), (Some(0), vec![]), "{said:#}");
    assert_eq!(said["pleg"]["pods"], 2);
    node.runtime.calls().assert_read_only();
}

#[tokio::test]
async fn a_list_that_hangs() {
    let node = Node::new(Profile::Ctd2).await;
    let _fault = node.runtime.faults().on(Op::ListContainers).hang();
    let (code, said) = node.doctor(&[]).await;
    assert_eq!((code, names(&said)), (Some(1), vec!["listHangs"]), "{said:#}");
    assert!(evidence(&said).starts_with("list_containers in flight for "), "{said:#}");
}

#[tokio::test]
async fn a_status_that_hangs() {
    for (op, call) in [(Op::PodSandboxStatus, "podsandbox_status"), (Op::ContainerStatus, "container_status")]
    {
        let node = Node::new(Profile::Ctd2).await;
        let uid = node.runtime.world(|world| world.sandboxes().next().expect("a pod").pod().clone());
        let _fault = node.runtime.faults().on(op).pod(&uid).hang();
        let (code, said) = node.doctor(&[]).await;
        assert_eq!((code, names(&said)), (Some(1), vec!["podStuck"]), "{said:#}");
        assert!(evidence(&said).contains(call) && evidence(&said).contains("pod shop/"), "{said:#}");
    }
}

#[tokio::test]
async fn nobody_who_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("dead.sock");
    drop(tokio::net::UnixListener::bind(&socket).expect("bound"));
    let socket = socket.display().to_string();
    let (code, said) = run(&["doctor", "-o", "json", "--runtime-endpoint", &socket]).await;
    assert_eq!((code, names(&said)), (Some(1), vec!["runtimeUnreachable"]), "{said:#}");
    assert!(evidence(&said).contains("nobody listens on"), "{said:#}");
}

#[tokio::test]
async fn events_that_are_switched_off_or_not_there() {
    for (profile, name) in [(Profile::CrioOff, "eventsDisabled"), (Profile::Ctd16, "eventsUnsupported")] {
        let node = Node::new(profile).await;
        let (code, said) = node.doctor(&[]).await;
        assert_eq!((code, names(&said)), (Some(0), vec![name]), "{said:#}");
    }
}

/// On the runtimes that hand each event to one reader, it reads none unless told to.
#[tokio::test]
async fn events_that_two_readers_steal_from_each_other() {
    let node = Node::new(Profile::Ctd17).await;
    let (code, said) = node.doctor(&[]).await;
    assert_eq!((code, names(&said)), (Some(0), vec!["eventsStolen"]), "{said:#}");
    assert_eq!(node.runtime.calls().count(Op::GetContainerEvents, |_| true), 0, "it takes none away");

    // A thief: it reads events, and then they are gone.
    let client = rubelet_cri::RuntimeClient::new(
        node.runtime.endpoint().parse().expect("an endpoint"),
        rubelet_cri::Options::default(),
        rubelet_cri::Metrics::default(),
    );
    let mut events = client.get_container_events().await.expect("a stream");
    let thief = tokio::spawn(async move { while events.next().await.is_some() {} });
    let changes = async {
        loop {
            node.runtime.world(|world| {
                let sandbox = world.sandboxes().next().expect("a pod").id().clone();
                let id = world.run(&sandbox, "brief");
                world.exit(&id, Exit::code(0));
            });
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // On a slow machine, the few seconds of one look may not be enough.
    let looking = async {
        loop {
            let (code, said) = node.doctor(&["--events", "on"]).await;
            if code == Some(1) {
                return said;
            }
        }
    };
    let said = tokio::select! {
        () = changes => unreachable!("they never end"),
        said = tokio::time::timeout(PATIENCE, looking) => said.expect("the theft is noticed"),
    };
    thief.abort();
    assert_eq!(names(&said), ["eventsStolen"], "{said:#}");
    assert!(evidence(&said).contains("were announced to somebody else"), "{said:#}");
}
