//! Which calls the agent waits for, right now: for whoever asks why nothing happens.
//!
//! A call is in the book for as long as somebody waits for its answer, so the book is as long as there are calls under
//! way, and no longer.

use std::time::Duration;

use rubelet_cri::Operation;
use tokio::time::Instant;

use crate::under_way::UnderWay;

/// The book. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct CallBook(UnderWay<Entry>);

#[derive(Debug)]
struct Entry {
    operation: Operation,
    target: Target,
    since: Instant,
    granted: Option<Duration>,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Something of a pod that the runtime does not know yet: namespace and name.
    Pod(String),
    /// A sandbox or container, by its id.
    Thing(String),
    /// An image, by its name.
    Image(String),
    /// The node.
    Node,
}

/// A call that has not been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallUnderWay {
    /// Which call.
    pub operation: Operation,
    /// About what.
    pub target: Target,
    /// For how long it has been waited for.
    pub age: Duration,
    /// How much of that the call itself gives to what it starts: the grace of a container, the timeout of a command.
    /// Nothing if it may take as long as it likes.
    pub granted: Option<Duration>,
}

impl CallBook {
    /// A call begins; it is under way until the returned value is dropped.
    #[must_use = "the call ends when this is dropped"]
    pub(super) fn begin(
        &self,
        operation: Operation,
        target: Target,
        granted: Option<Duration>,
    ) -> impl Drop + use<> {
        self.0.begin(Entry { operation, target, since: Instant::now(), granted })
    }

    /// Every call that has not been answered, the oldest first.
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
