//! Fits the answers in a recording to the requests of this version.
//!
//! A recording contains the inputs of the core that made it. The core of a later version may decide differently here
//! and there, for instance to inspect a pod once more. The answers are still those of the same runtime about the same
//! pods, so each one is given to the request that is open. An answer without an open request is lost, and a request
//! that is made later may wait for ever. In the version that made the recording, every answer fits as it is.

use super::{Core, FullList, Input};
use crate::records::Inspection;

/// From these rules on, a correction names the container, and says how it ended.
const NAMED_CORRECTIONS: u32 = 4;

impl Core {
    /// Makes it report events as these rules do, as far as they differ in how events are reported.
    pub(crate) fn tell_by(&mut self, rules: u32) {
        self.corrections_are_bare = rules < NAMED_CORRECTIONS;
    }

    /// Makes an answer fit the request that is open. Returns false if there is none; inputs that are not answers always
    /// fit.
    pub(crate) fn fit(&self, input: &mut Input) -> bool {
        match input {
            Input::Listed { asked, .. } => match self.full_list {
                FullList::InFlight { asked: open } => *asked = open,
                FullList::DueAt(_) => return false,
            },
            Input::Looked { pod, asked, .. } => match self.looks.get(pod) {
                Some(open) => *asked = open.at,
                None => return false,
            },
            Input::Inspected { pod, ticket, .. } => {
                match self.records.get(pod).map(|record| &record.inspection) {
                    Some(Inspection::InFlight { ticket: open, .. }) => *ticket = *open,
                    Some(Inspection::Queued { .. } | Inspection::Idle) | None => return false,
                }
            }
            Input::Tick
            | Input::Nudge { .. }
            | Input::Reinspect { .. }
            | Input::Awaited
            | Input::StreamOpened
            | Input::StreamEnded(_)
            | Input::Announced { .. }
            | Input::Interrupted => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::{Exited, Harness, Running, pod};
    use super::*;

    #[test]
    fn an_answer_goes_to_the_question_that_is_open() {
        let mut pleg = Harness::new();
        pleg.relist(vec![pod("A", &[("c", Running)])]);
        pleg.start_list();
        pleg.answer_list(vec![pod("A", &[("c", Exited)])]);
        let status = pleg.status_of(&pod("A", &[("c", Exited)]));
        let mut answer = Input::Inspected { pod: "A".into(), ticket: 999, answer: Ok(status) };
        assert!(pleg.core.fit(&mut answer));
        pleg.take_told();
        pleg.step(answer);
        assert_eq!(pleg.take_told().len(), 1, "the end of c");

        let status = pleg.status_of(&pod("A", &[("c", Exited)]));
        let mut again = Input::Inspected { pod: "A".into(), ticket: 999, answer: Ok(status) };
        assert!(!pleg.core.fit(&mut again), "nobody asks");
        assert!(pleg.core.fit(&mut Input::Tick), "it is no answer");
    }
}
