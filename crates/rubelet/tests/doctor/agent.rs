//! `rubelet doctor` beside a running agent: the agent is asked, and no second stream of events is opened.

use std::path::Path;

use tokio::process::Child;

use super::*;

/// An agent that runs no pods of its own, over a runtime that has some.
struct Agent {
    node: Node,
    _child: Child,
    folder: tempfile::TempDir,
}

impl Agent {
    async fn start(node: Node) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(folder.path().join("pods")).expect("made");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubelet"));
        command
            .args(["run", &at("pods"), "--data-dir", &at("data"), "--pod-logs-dir", &at("logs")])
            .args(["--listen", "off", "--node-name", "node", "--runtime-endpoint", &node.runtime.endpoint()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let child = command.spawn().expect("it starts");
        Self { node, _child: child, folder }
    }

    fn manifests(&self) -> &Path {
        self.folder.path()
    }

    /// Asks again and again until the names of what is found are these.
    async fn until(&self, wanted: &[&str]) -> Value {
        let data = self.folder.path().join("data").display().to_string();
        let asking = async {
            loop {
                // Before there is an agent, it would look for a runtime.
                if self.folder.path().join("data/agent.sock").exists() {
                    let (code, said) = run(&["doctor", "-o", "json", "--data-dir", &data]).await;
                    if names(&said) == wanted {
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
    assert!(evidence(&said).contains("container_status"), "{said:#}");
    drop(fault);

    agent.node.runtime.faults().clear();
    std::fs::write(agent.manifests().join("pods/broken.yaml"), "kind: Pod\nspec: 3\n").expect("written");
    let said = agent.until(&["sourceProblems"]).await;
    assert!(evidence(&said).contains("broken.yaml"), "{said:#}");
    let readers = agent.node.runtime.calls().count(Op::GetContainerEvents, |_| true);
    assert_eq!(readers, 1, "the agent reads the events, and nobody beside it");
}
