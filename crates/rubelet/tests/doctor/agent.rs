//! `rubelet doctor` next to a running agent: it asks the agent, and opens no second event stream.

use std::path::Path;

use super::*;
use crate::synthetic_agent::Agent;

impl Agent {
    /// Asks repeatedly until these findings appear or, if none are wanted, until there are none.
    async fn until(&self, wanted: &[&str]) -> Value {
        let data = self.data();
        let is_it = |found: &[&str]| match wanted {
            [] => found.is_empty(),
            wanted => wanted.iter().all(|name| found.contains(name)),
        };
        let asking = async {
            loop {
                // Without an agent, it would search for a runtime.
                if self.socket().exists() {
                    let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &data]).await;
                    if is_it(&names(&said)) {
                        let has_problem = said["healthy"] == false;
                        assert_eq!(code, Some(i32::from(has_problem)), "{said:#}");
                        assert_eq!(said["agent"], data.as_str(), "{said:#}");
                        return said;
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("never {wanted:?}"))
    }
}

#[tokio::test]
async fn the_agent_says_what_hangs_and_what_is_broken() {
    let agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    let said = agent.until(&[]).await;
    assert_eq!(said["pleg"]["pods"], 2, "{said:#}");

    let (uid, container) = agent.node.runtime.world(|world| {
        let sandbox = world.sandboxes().next().expect("a pod");
        let container = world.containers_of(sandbox.id()).next().expect("a container");
        (sandbox.pod().clone(), container.id().clone())
    });
    let fault = agent.node.runtime.faults().on(Op::ContainerStatus).pod(&uid).hang();
    agent.node.runtime.world(|world| world.exit(&container, Exit::code(1)));
    let said = agent.until(&["podStuck"]).await;
    assert!(evidence(&said, "podStuck").contains("container_status"), "{said:#}");
    drop(fault);

    agent.node.runtime.faults().clear();
    std::fs::write(agent.manifests().join("pods/broken.yaml"), "kind: Pod\nspec: 3\n").expect("written");
    let said = agent.until(&["sourceProblems"]).await;
    assert!(evidence(&said, "sourceProblems").contains("broken.yaml"), "{said:#}");
    let readers = agent.node.runtime.calls().count(Op::GetContainerEvents, |_| true);
    assert_eq!(readers, 1, "the agent reads the events, and nobody beside it");
}

/// The agent had a good list a moment ago; that the next one hangs is found by making the call.
#[tokio::test]
async fn a_list_that_hangs_beside_an_agent() {
    let agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    agent.until(&[]).await;
    let _fault = agent.node.runtime.faults().on(Op::ListContainers).hang();
    let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &agent.data()]).await;
    assert_eq!((code, &said["healthy"]), (Some(1), &Value::Bool(false)), "{said:#}");
    assert!(evidence(&said, "listHangs").starts_with("list_containers in flight for "), "{said:#}");
}

/// If an agent does not answer, the runtime is examined without it, and other commands say why they fail.
#[tokio::test]
async fn an_agent_that_does_not_answer() {
    let agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    agent.until(&[]).await;
    agent.signal("-STOP");
    let data = agent.data();
    let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &data]).await;
    assert_eq!(code, Some(1), "{said:#}");
    assert!(evidence(&said, "agentSilent").contains("is stopped (`kill -CONT "), "{said:#}");
    assert_eq!(said["pleg"]["pods"], 2, "the runtime is seen from outside: {said:#}");

    let mut ps = Command::new(env!("CARGO_BIN_EXE_rubelet"));
    ps.args(["ps", "--data-dir", &data]);
    let output = tokio::time::timeout(PATIENCE, ps.output()).await.expect("it ends").expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("does not answer: its process"), "{said}");
    agent.signal("-CONT");
    agent.until(&[]).await;
}

/// An agent that died is reported, and its runtime is examined; an agent that ended as requested is not reported.
#[tokio::test]
async fn an_agent_that_died() {
    for (signal, is_missed) in [("-KILL", true), ("-TERM", false)] {
        let mut agent = Agent::start(Node::new(Profile::Ctd2).await).await;
        agent.until(&[]).await;
        agent.signal(signal);
        agent.child.wait().await.expect("it ends");
        let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &agent.data()]).await;
        assert_eq!(names(&said).contains(&"agentDead"), is_missed, "{said:#}");
        if is_missed {
            assert_eq!((code, &said["pleg"]["pods"]), (Some(1), &2.into()), "{said:#}");
            // The next agent holds the folder, but does not listen yet.
            let lock = std::fs::File::open(Path::new(&agent.data()).join("agent.lock")).expect("left behind");
            lock.try_lock().expect("nobody has it");
            let (_, said) = run(&["doctor", "-o", "json", "--data-dir", &agent.data()]).await;
            assert!(!names(&said).contains(&"agentDead"), "{said:#}");
        }
    }
}

/// A runtime that is down is reported as such, once, and the agent's own knowledge is still reported.
#[tokio::test]
async fn a_runtime_that_is_down_beside_an_agent() {
    let agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    agent.until(&[]).await;
    std::fs::write(agent.manifests().join("pods/broken.yaml"), "kind: Pod\nspec: 3\n").expect("written");
    agent.until(&["sourceProblems"]).await;
    agent.node.runtime.go_down().await;
    let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &agent.data()]).await;
    assert_eq!((code, names(&said)), (Some(1), vec!["runtimeUnreachable", "sourceProblems"]), "{said:#}");
}

/// A call that the agent itself waits for is reported, with the pod that it is for.
#[tokio::test]
async fn a_call_of_the_agent_that_hangs() {
    let agent = Agent::start(Node::new(Profile::Ctd2).await).await;
    agent.until(&[]).await;
    let _fault = agent.node.runtime.faults().on(Op::RunPodSandbox).hang();
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: busybox}\n";
    std::fs::write(agent.manifests().join("pods/web.yaml"), manifest).expect("written");
    let asking = async {
        loop {
            let (_, said) = run(&["doctor", "-o", "json", "--data-dir", &agent.data()]).await;
            let call = said["agentReport"]["calls"][0].clone();
            if call["call"] == "run_podsandbox" {
                return call;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let call = tokio::time::timeout(PATIENCE, asking).await.expect("the call is told");
    assert_eq!(call["pod"], "default/web-node", "{call:#}");
}
