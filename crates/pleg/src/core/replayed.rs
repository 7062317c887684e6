//! Answers of a recording, for the questions of this version.
//!
//! A recording holds what the core of the version that made it was told. A later one may decide otherwise here or there:
//! to inspect a pod once more, for instance. The answers are then still those of the same runtime about the same pods, so
//! each goes to the question that is open. Played by the version that made it, every answer fits as it is.

use super::{Core, FullList, Input};
use crate::records::Inspection;

impl Core {
    /// Makes an answer one to the question that is open, if there is one.
    pub(crate) fn fit(&self, input: &mut Input) {
        match input {
            Input::Listed { asked, .. } => {
                if let FullList::InFlight { asked: open } = self.full_list {
                    *asked = open;
                }
            }
            Input::Looked { pod, asked, .. } => {
                if let Some(open) = self.looks.get(pod) {
                    *asked = open.at;
                }
            }
            Input::Inspected { pod, ticket, .. } => {
                if let Some(record) = self.records.get(pod)
                    && let Inspection::InFlight { ticket: open, .. } = &record.inspection
                {
                    *ticket = *open;
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
        pleg.core.fit(&mut answer);
        pleg.take_told();
        pleg.step(answer);
        assert_eq!(pleg.take_told().len(), 1, "the end of c");
    }
}
