//! Answers of a recording, for the questions of this version.
//!
//! A recording holds what the core of the version that made it was told. A later one may decide otherwise here or there:
//! to inspect a pod once more, for instance. The answers are then still those of the same runtime about the same pods, so
//! each goes to the question that is open. One that finds none is lost, and whoever asks later may wait for ever. Played by
//! the version that made it, every answer fits as it is.

use super::{Core, FullList, Input};
use crate::records::Inspection;

/// From these rules on, a correction says of what it is, and how that ended.
const NAMED_CORRECTIONS: u32 = 4;

impl Core {
    /// From now on it tells what it is told of as by these rules, as far as they say how things are told.
    pub(crate) fn tell_by(&mut self, rules: u32) {
        self.corrections_are_bare = rules < NAMED_CORRECTIONS;
    }

    /// Makes an answer one to the question that is open. Whether there is one; what is no answer needs none.
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
