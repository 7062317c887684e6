//! The tasks of a run besides the agent. All of them are meant to run as long as the agent does: when one ends, the run
//! ends with an error that names it, instead of continuing silently without it.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

/// Long-lived tasks, by name. Dropping it aborts them.
#[derive(Debug, Default)]
pub(super) struct Crew {
    tasks: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that ended although it should have kept running.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} failed{}; pods keep running: start `rubelet run` again to take them over", because(.why.as_deref()))]
pub(crate) struct Lost {
    name: String,
    /// The message that it ended with, such as that of a panic.
    why: Option<String>,
}

impl Lost {
    pub(super) fn of(name: impl Into<String>, why: Option<String>) -> Self {
        Self { name: name.into(), why }
    }
}

fn because(why: Option<&str>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

impl Crew {
    /// Starts a task.
    pub(super) fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name.into());
    }

    /// Waits until a task has ended; forever if none does.
    pub(super) async fn lost(&mut self) -> Lost {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (id, why) = match ended {
            Ok((id, ())) => (id, None),
            Err(error) => (error.id(), last_words(error)),
        };
        Lost::of(self.names.remove(&id).unwrap_or_default(), why)
    }
}

/// Returns the message of a panic, if it has one.
pub(super) fn last_words(error: JoinError) -> Option<String> {
    let panic = error.try_into_panic().ok()?;
    panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref().cloned())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn whoever_ends_is_named() {
        let mut crew = Crew::default();
        crew.spawn("the patient one", std::future::pending());
        tokio::task::yield_now().await;
        assert_eq!(crew.lost().now_or_never(), None);
        crew.spawn("file /pods", async { panic!("no {}", "luck") });
        assert_eq!(
            crew.lost().await.to_string(),
            "file /pods failed: no luck; pods keep running: start `rubelet run` again to take them over"
        );
        crew.spawn("the lazy one", async {});
        assert_eq!(crew.lost().await, Lost::of("the lazy one", None));
    }

    #[tokio::test]
    async fn a_crew_of_nobody_loses_nobody() {
        assert_eq!(Crew::default().lost().now_or_never(), None);
    }
}
