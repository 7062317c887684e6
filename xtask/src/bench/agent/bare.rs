//! The same pods without an agent: only the unavoidable calls, through the same client.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use rubelet_cri::ListFilter;
use rubelet_cri::v1::ContainerEventType;
use rubelet_model::{ContainerId, SandboxId};
use tokio::time::Instant;

use super::marks::{Marks, Moment, kill};
use crate::bench::request;
use crate::bench::subject::Subject;

/// The minimum grace period that an agent gives every container.
const LEAST_GRACE: Duration = Duration::from_secs(2);

pub(super) struct Bare {
    subject: Subject,
    pub(super) marks: Marks,
    pods: BTreeMap<usize, (SandboxId, ContainerId)>,
}

impl Bare {
    pub(super) fn new(subject: Subject) -> anyhow::Result<Self> {
        let marks = Marks::new(1, &subject.dir.join("bare"))?;
        Ok(Self { subject, marks, pods: BTreeMap::new() })
    }

    /// Creates a pod; returns the time until its container's first instruction.
    pub(super) async fn add(&mut self, number: usize) -> anyhow::Result<Duration> {
        let begin = Moment::now();
        let made = self.make(number).await?;
        self.pods.insert(number, made);
        Ok(self.marks.begun(number, None).await?.since(begin))
    }

    /// Creates many pods at once; returns the time until the last one's first instruction.
    pub(super) async fn add_all(
        &mut self,
        numbers: impl Iterator<Item = usize> + Clone,
    ) -> anyhow::Result<Duration> {
        let begin = Moment::now();
        let made = try_join_all(numbers.clone().map(|number| self.make(number))).await?;
        self.pods.extend(numbers.clone().zip(made));
        Ok(self.marks.all_begun(numbers).await?.since(begin))
    }

    async fn make(&self, number: usize) -> anyhow::Result<(SandboxId, ContainerId)> {
        let config = request::sandbox(&self.subject, number, self.marks.place());
        let sandbox = self.subject.client.run_pod_sandbox(config, "").await?;
        let container = self.start(number, &sandbox, 0).await?;
        Ok((sandbox, container))
    }

    async fn start(&self, number: usize, sandbox: &SandboxId, attempt: u32) -> anyhow::Result<ContainerId> {
        let client = &self.subject.client;
        let config = request::container(self.marks.place(), attempt, &self.marks.script(number));
        let of_sandbox = request::sandbox(&self.subject, number, self.marks.place());
        let container = client.create_container(sandbox, config, of_sandbox).await?;
        client.start_container(&container).await?;
        Ok(container)
    }

    /// Kills the process of a pod, and starts another as soon as the runtime reports that it ended.
    pub(super) async fn replace(&mut self, number: usize) -> anyhow::Result<Duration> {
        let (sandbox, old) = self.pods.get(&number).cloned().context("no such pod")?;
        let last = self.marks.last(number);
        let pid = self.marks.process(number).await?;
        let mut events = self.subject.client.get_container_events().await?;
        let begin = Moment::now();
        kill(pid)?;
        loop {
            let event = events.next().await.context("the event stream ended")??;
            let is_stop = event.container_event_type == i32::from(ContainerEventType::ContainerStoppedEvent);
            if is_stop && event.container_id == old.as_str() {
                break;
            }
        }
        let container = self.start(number, &sandbox, 1).await?;
        self.pods.insert(number, (sandbox, container));
        Ok(self.marks.begun(number, last).await?.since(begin))
    }

    /// Returns how long the two lists take.
    pub(super) async fn lists(&self) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        self.subject.client.list_pods(&ListFilter::All).await?;
        Ok(begin.elapsed())
    }

    /// Removes all pods at once; returns the time until the last process was gone.
    pub(super) async fn remove_all(&mut self) -> anyhow::Result<Duration> {
        let client = &self.subject.client;
        let begin = Moment::now();
        let gone = self.marks.gone(begin);
        let removed = try_join_all(std::mem::take(&mut self.pods).into_values().map(
            |(sandbox, container)| async move {
                client.stop_container(&container, LEAST_GRACE).await?;
                client.stop_pod_sandbox(&sandbox).await?;
                client.remove_pod_sandbox(&sandbox).await?;
                anyhow::Ok(())
            },
        ));
        let (gone, _) = tokio::try_join!(gone, removed)?;
        Ok(gone)
    }
}
