//! How well a pod is, by the word that tells most of it.

/// How well a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Busy,
    Bad,
}

impl Mood {
    /// How they are called where pods are counted.
    pub(crate) const WORDS: [(Self, &'static str); 3] =
        [(Self::Well, "ok"), (Self::Busy, "in progress"), (Self::Bad, "in trouble")];

    /// By the word in the column `STATUS`.
    pub(crate) fn of(status: &str) -> Self {
        match status {
            // One that was stopped is as it was asked to be.
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

/// `Init:1/2`: init containers that do what they should.
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
