//! One pod with one container that reports when it runs, and the duration of each step.

use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout};

use super::super::request;
use super::super::subject::Subject;

/// A container that has not reported by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports that it runs, and stays.
const SCRIPT: &str = "echo > /place/word; exec sleep 2147483647";

/// The times from the request for a sandbox to the end of each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) sandbox: Duration,
    pub(super) created: Duration,
    pub(super) started: Duration,
    /// The container's program runs, as reported by the program rather than by the runtime.
    pub(super) first_instruction: Duration,
}

/// Creates a pod, which stays.
pub(super) async fn run(subject: &Subject, number: usize) -> anyhow::Result<Steps> {
    let place = subject.dir.join(format!("pod-{number}"));
    std::fs::create_dir_all(&place)?;
    let fifo = place.join("word");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    // Opened for both, so that it neither waits for a writer nor ends with one.
    let mut word = pipe::OpenOptions::new().read_write(true).open_receiver(&fifo)?;
    let sandbox_config = request::sandbox(subject, number, &place);
    let container_config = request::container(&place, 0, SCRIPT);

    let begin = Instant::now();
    let client = &subject.client;
    let pod = client.run_pod_sandbox(sandbox_config.clone(), "").await?;
    let sandbox = begin.elapsed();
    let id = client.create_container(&pod, container_config, sandbox_config).await?;
    let created = begin.elapsed();
    let said = async {
        let heard = timeout(PATIENCE, word.read_u8()).await.context("the container says nothing")?;
        heard.context("the container says nothing")?;
        anyhow::Ok(begin.elapsed())
    };
    let start = async {
        client.start_container(&id).await?;
        anyhow::Ok(begin.elapsed())
    };
    let (first_instruction, started) = tokio::try_join!(said, start)?;
    Ok(Steps { sandbox, created, started, first_instruction })
}

/// Removes every pod of the runtime.
pub(super) async fn clear(subject: &Subject) -> anyhow::Result<()> {
    for pod in subject.client.describe_sandboxes(None).await? {
        let id = pod.id.into();
        subject.client.stop_pod_sandbox(&id).await?;
        subject.client.remove_pod_sandbox(&id).await?;
    }
    Ok(())
}
