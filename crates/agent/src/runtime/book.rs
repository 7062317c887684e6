//! The runtime calls that the agent is waiting for right now, to explain why nothing happens.
//!
//! A call is in the book exactly as long as something waits for its answer, so the book is never longer than the number
//! of calls in progress.

use std::time::Duration;

use rubelet_cri::Operation;
use tokio::time::Instant;

use crate::under_way::UnderWay;

/// The record of calls in progress. Clones share the same one.
#[derive(Clone, Debug, Default)]
pub struct CallBook(UnderWay<Entry>);

#[derive(Debug)]
struct Entry {
    operation: Operation,
    target: Target,
    since: Instant,
    granted: Option<Duration>,
}

/// The target of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Something in a pod that the runtime does not know yet: namespace and name.
    Pod(String),
    /// A sandbox or container, by ID.
    Thing(String),
    /// An image, by name.
    Image(String),
    /// The node itself.
    Node,
}

/// A call that has not been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallUnderWay {
    /// The operation.
    pub operation: Operation,
    /// Its target.
    pub target: Target,
    /// How long it has been waited for.
    pub age: Duration,
    /// How much of that time the call itself grants to what it starts: the grace period of a container, the timeout of
    /// a command. `None` if there is no limit.
    pub granted: Option<Duration>,
}

impl CallBook {
    /// Records the start of a call, which is in progress until the returned value is dropped.
    #[must_use = "the call ends when this is dropped"]
    pub(super) fn begin(
        &self,
        operation: Operation,
        target: Target,
        granted: Option<Duration>,
    ) -> impl Drop + use<> {
        self.0.begin(Entry { operation, target, since: Instant::now(), granted })
    }

    /// Returns every unanswered call, oldest first.
    #[must_use]
    pub fn under_way(&self) -> Vec<CallUnderWay> {
        self.0.seen(|entry| CallUnderWay {
            operation: entry.operation,
            target: entry.target.clone(),
            age: entry.since.elapsed(),
            granted: entry.granted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_is_in_the_book_for_as_long_as_somebody_waits() {
        let book = CallBook::default();
        let run =
            book.begin(Operation::RunPodSandbox, Target::Pod("shop/web".to_owned()), Some(Duration::ZERO));
        tokio::time::advance(Duration::from_secs(7)).await;
        let grace = Some(Duration::from_secs(30));
        let stop = book.begin(Operation::StopContainer, Target::Thing("c0ffee".to_owned()), grace);
        let told: Vec<_> = book
            .under_way()
            .into_iter()
            .map(|call| (call.operation, call.age.as_secs(), call.granted))
            .collect();
        assert_eq!(
            told,
            [(Operation::RunPodSandbox, 7, Some(Duration::ZERO)), (Operation::StopContainer, 0, grace)]
        );
        drop(run);
        assert_eq!(book.under_way().len(), 1);
        drop(stop);
        assert_eq!(book.under_way(), []);
    }
}
