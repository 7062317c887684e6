//! How well a pod is, derived from its status word.

/// How well a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Busy,
    Bad,
}

impl Mood {
    /// The words for them where pods are counted.
    pub(crate) const WORDS: [(Self, &'static str); 3] =
        [(Self::Well, "ok"), (Self::Busy, "in progress"), (Self::Bad, "in trouble")];

    /// Determines it from the word in the column `STATUS`.
    pub(crate) fn of(status: &str) -> Self {
        match status {
            // A stopped pod is as its user wants it.
            "Running" | "Succeeded" | "Completed" | "Stopped" => Self::Well,
            "Pending"
            | "ContainerCreating"
            | "PodInitializing"
            | "RestartingAllContainers"
            | "NotReady"
            | "Terminating" => Self::Busy,
            _ if is_counting(status) => Self::Busy,
            _ => Self::Bad,
        }
    }
}

/// Whether the word is like `Init:1/2`: init containers that work as they should.
fn is_counting(status: &str) -> bool {
    status.strip_prefix("Init:").is_some_and(|count| count.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_well_is_bad() {
        let table = [
            ("Running", Mood::Well),
            ("Completed", Mood::Well),
            ("Init:0/2", Mood::Busy),
            ("Init:Error", Mood::Bad),
            ("NotReady", Mood::Busy),
            ("Error", Mood::Bad),
            ("OutOfcpu", Mood::Bad),
        ];
        for (status, mood) in table {
            assert_eq!(Mood::of(status), mood, "{status}");
        }
    }
}
