//! `rubelet doctor`, as a program, on runtimes with every fault that it knows.

mod agent;
mod containerd;
#[path = "../synthetic_agent/mod.rs"]
mod synthetic_agent;

use std::process::Stdio;
use std::time::Duration;

use rubelet_runtime::synthetic::{ContainerSpec, Exit, Op, PodSpec, Profile, SyntheticRuntime};
use serde_json::Value;
use tokio::process::Command;

use synthetic_agent::Node;

/// This is long because it only matters when something fails to happen.
const PATIENCE: Duration = Duration::from_secs(120);

impl Node {
    async fn doctor(&self, more: &[&str]) -> (Option<i32>, Value) {
        let endpoint = self.runtime.endpoint();
        let mut args = vec!["doctor", "-o", "json", "--for", "4s", "--runtime-endpoint", &endpoint];
        args.extend(more);
        run(&args).await
    }

    /// Examines repeatedly until this is found: on a slow machine, the few seconds of one examination may not be
    /// enough.
    async fn until_found(&self, name: &str, more: &[&str]) -> (Option<i32>, Value) {
        let looking = async {
            loop {
                let (code, said) = self.doctor(more).await;
                if names(&said).contains(&name) {
                    return (code, said);
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{name} is never found"))
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

/// Returns the names of the findings.
fn names(said: &Value) -> Vec<&str> {
    let findings = said["findings"].as_array().expect("a list");
    findings.iter().map(|finding| finding["name"].as_str().expect("a name")).collect()
}

/// Returns the evidence of a finding.
fn evidence<'a>(said: &'a Value, name: &str) -> &'a str {
    let findings = said["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["name"] == name).expect("it is found");
    finding["evidence"].as_str().expect("a text")
}

#[tokio::test]
async fn a_runtime_that_is_well() {
    let node = Node::new(Profile::Ctd2).await;
    let (code, said) = node.doctor(&[]).await;
    assert_eq!((code, &said["healthy"]), (Some(0), &Value::Bool(true)), "{said:#}");
    assert_eq!(said["pleg"]["pods"], 2);
    node.runtime.calls().assert_read_only();
}

#[tokio::test]
async fn a_list_that_hangs() {
    let node = Node::new(Profile::Ctd2).await;
    let _fault = node.runtime.faults().on(Op::ListContainers).hang();
    let (code, said) = node.until_found("listHangs", &[]).await;
    assert_eq!((code, &said["healthy"]), (Some(1), &Value::Bool(false)), "{said:#}");
    assert!(evidence(&said, "listHangs").starts_with("list_containers in flight for "), "{said:#}");
}

/// At the first call everything was well, and no event ever arrives.
#[tokio::test]
async fn a_runtime_that_stands_still_while_it_is_looked_at() {
    let node = Node::new(Profile::Ctd2).await;
    let _fault = node.runtime.faults().on(Op::Status).skip(1).hang();
    let endpoint = node.runtime.endpoint();
    let (code, said) = run(&["doctor", "-o", "json", "--for", "10s", "--runtime-endpoint", &endpoint]).await;
    assert_eq!(code, Some(1), "{said:#}");
    assert!(evidence(&said, "statusFails").starts_with("status in flight for "), "{said:#}");
}

/// The runtime is running, but does not even report its version. Its socket is named, whatever else is unknown.
#[tokio::test]
async fn a_runtime_that_does_not_greet() {
    let node = Node::new(Profile::Ctd2).await;
    let _fault = node.runtime.faults().on(Op::Version).hang();
    let endpoint = node.runtime.endpoint();
    for (time, code, name) in [("200ms", 2, "tooShort"), ("3s", 1, "runtimeUnreachable")] {
        let (ended, said) =
            run(&["doctor", "-o", "json", "--for", time, "--runtime-endpoint", &endpoint]).await;
        assert_eq!((ended, names(&said)), (Some(code), vec![name]), "{said:#}");
        assert_eq!(said["endpoint"], endpoint, "{said:#}");
    }
}

/// With less time than it takes to tell slow from hung, it says so, and not that everything is well.
#[tokio::test]
async fn a_look_that_is_too_short() {
    let node = Node::new(Profile::Ctd2).await;
    let _fault = node.runtime.faults().on(Op::ListContainers).hang();
    let endpoint = node.runtime.endpoint();
    let (code, said) =
        run(&["doctor", "-o", "json", "--for", "200ms", "--runtime-endpoint", &endpoint]).await;
    assert_eq!((code, &said["healthy"]), (Some(2), &Value::Null), "{said:#}");
    assert_eq!(names(&said), ["tooShort"], "{said:#}");
}

/// While it reads events, it ends rather than being stopped.
#[tokio::test]
async fn ctrl_z_ends_it() {
    let node = Node::new(Profile::Ctd2).await;
    let endpoint = node.runtime.endpoint();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    let args = ["doctor", "--for", "10m", "--runtime-endpoint", &endpoint];
    let mut child = command.args(args).stdin(Stdio::null()).kill_on_drop(true).spawn().expect("it starts");
    let follows = async {
        while node.runtime.calls().count(Op::GetContainerEvents, |_| true) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, follows).await.expect("it follows the events");
    let pid = child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-TSTP", &pid]).status().expect("kill runs").success());
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("ours");
    assert_eq!(ended.code(), Some(2));
}

#[tokio::test]
async fn a_status_that_hangs() {
    for (op, call) in [(Op::PodSandboxStatus, "podsandbox_status"), (Op::ContainerStatus, "container_status")]
    {
        let node = Node::new(Profile::Ctd2).await;
        let uid = node.runtime.world(|world| world.sandboxes().next().expect("a pod").pod().clone());
        let _fault = node.runtime.faults().on(op).pod(&uid).hang();
        let (code, said) = node.until_found("podStuck", &[]).await;
        assert_eq!(code, Some(1), "{said:#}");
        let evidence = evidence(&said, "podStuck");
        assert!(evidence.contains(call) && evidence.contains("pod shop/"), "{said:#}");
    }
}

#[tokio::test]
async fn a_list_that_no_longer_fits_into_one_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let crowded = SyntheticRuntime::new(Profile::Ctd2).quirks(|quirks| quirks.max_message_bytes = 20_000);
    let runtime = crowded.serve(folder.path().join("s")).await.expect("served");
    runtime.world(|world| {
        for number in 0..30 {
            let container = ContainerSpec::new("main");
            let container = if number < 10 { container } else { container.exited(0) };
            world.add_pod(PodSpec::new("shop", format!("web-{number}")).container(container));
        }
    });
    let node = Node { runtime, _folder: folder };
    let (code, said) = node.until_found("listTooLarge", &[]).await;
    assert_eq!((code, &said["pleg"]["pods"]), (Some(1), &30.into()), "{said:#}");
}

#[tokio::test]
async fn nobody_who_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("dead.sock");
    drop(tokio::net::UnixListener::bind(&socket).expect("bound"));
    let socket = socket.display().to_string();
    let (code, said) = run(&["doctor", "-o", "json", "--runtime-endpoint", &socket]).await;
    assert_eq!((code, names(&said)), (Some(1), vec!["runtimeUnreachable"]), "{said:#}");
    assert!(evidence(&said, "runtimeUnreachable").contains("nobody listens on"), "{said:#}");
}

#[tokio::test]
async fn events_that_are_switched_off_or_not_there() {
    for (profile, name) in [(Profile::CrioOff, "eventsDisabled"), (Profile::Ctd16, "eventsUnsupported")] {
        let node = Node::new(profile).await;
        let (code, said) = node.until_found(name, &[]).await;
        assert_eq!(code, Some(0), "{said:#}");
    }
}

/// On runtimes that hand each event to one reader, it reads no events unless asked to.
#[tokio::test]
async fn events_that_two_readers_steal_from_each_other() {
    let node = Node::new(Profile::Ctd17).await;
    let (code, said) = node.until_found("eventsStolen", &[]).await;
    assert_eq!(code, Some(0), "{said:#}");
    assert_eq!(node.runtime.calls().count(Op::GetContainerEvents, |_| true), 0, "it takes none away");

    // This reader takes events away from the other one.
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
    // On a slow machine, the few seconds of one examination may not be enough.
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
    assert!(evidence(&said, "eventsStolen").contains("were announced to another reader"), "{said:#}");
}
