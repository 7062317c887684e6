use super::*;
use crate::gc::testkit::Watched;

const POLICY: LogPolicy = LogPolicy { max_size: 10, max_files: 3 };

/// A node with a container `web` in the agent's own pod `ours` and one in the foreign pod `theirs`, each with a log of
/// this many bytes.
struct Node {
    watched: Watched,
    folder: tempfile::TempDir,
}

impl Node {
    async fn with_logs_of(bytes: usize) -> Self {
        let node = Self { watched: Watched::new(), folder: tempfile::tempdir().unwrap() };
        node.data().pod("ours").unwrap().create().unwrap();
        for pod in ["ours", "theirs"] {
            std::fs::create_dir_all(node.log(pod).parent().unwrap()).unwrap();
            std::fs::write(node.log(pod), "x".repeat(bytes)).unwrap();
            node.watched.run(pod, "web", &node.logs()).await;
        }
        node
    }

    fn data(&self) -> DataDirectory {
        DataDirectory::new(self.folder.path().join("data"))
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    fn log(&self, pod: &str) -> PathBuf {
        self.logs().join(pod).join("web/0.log")
    }

    /// Returns the names of the log and of the files beside it.
    fn parts(&self, pod: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.log(pod).parent().unwrap()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Checks once; returns the calls to the runtime.
    async fn look(&self) -> Vec<String> {
        let (runtime, cache) = (Arc::new(self.watched.runtime.clone()), self.watched.pleg.handle().cache());
        LogRotation::new(runtime, cache, self.data(), self.logs(), POLICY).look().await;
        self.watched.runtime.take_calls()
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_log_of_ours_is_rotated_and_nobody_elses() {
    let node = Node::with_logs_of(10).await;
    assert_eq!(node.look().await, ["reopen the log of web-0"]);
    assert_eq!(node.parts("ours").len(), 2);
    assert_eq!(std::fs::read(node.log("ours")).unwrap(), b"");
    assert_eq!(node.parts("theirs"), ["0.log"]);
    assert_eq!(node.look().await, [""; 0], "it is small again");
}

#[tokio::test(start_paused = true)]
async fn a_small_log_is_left_alone() {
    let node = Node::with_logs_of(9).await;
    assert_eq!(node.look().await, [""; 0]);
    assert_eq!(node.parts("ours"), ["0.log"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_moved_away_before_an_agent_was_killed_is_opened_anew() {
    let node = Node::with_logs_of(10).await;
    for pod in ["ours", "theirs"] {
        std::fs::rename(node.log(pod), node.log(pod).with_extension("log.20260801-120000")).unwrap();
    }
    assert_eq!(node.look().await, ["reopen the log of web-0"]);
    assert_eq!(node.parts("ours"), ["0.log", "0.log.20260801-120000"]);
    assert_eq!(node.parts("theirs"), ["0.log.20260801-120000"]);
    assert_eq!(node.look().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_the_runtime_does_not_open_anew_is_put_back() {
    let node = Node::with_logs_of(10).await;
    node.watched.runtime.fail("reopen_log", Some("not now"));
    assert_eq!(node.look().await, ["reopen the log of web-0"]);
    assert_eq!(node.parts("ours"), ["0.log"]);
    assert_eq!(std::fs::read(node.log("ours")).unwrap().len(), 10);
}
