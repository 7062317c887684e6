//! The transition table: which events follow from a change of one container (or sandbox).
//!
//! It is total: every pair of what was known and what is seen has a row, and a new state does not compile until it has
//! one. It differs from the kubelet's table in one way: a pass through `unknown` reports nothing, so the last report is
//! remembered ([`Known::Unknown`]) and never repeated.

use rubelet_model::{ContainerState, SandboxState};
use serde::{Deserialize, Serialize};

use crate::event::EventKind;

/// What a list says about something that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    /// It is running (a sandbox: is ready).
    Running,
    /// It has ended (a sandbox: is not ready).
    Exited,
    /// It was created but has never run, or the runtime does not know its state, or we do not understand the answer.
    Unknown,
}

impl From<ContainerState> for Seen {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Running => Self::Running,
            ContainerState::Exited => Self::Exited,
            ContainerState::Created | ContainerState::Unknown => Self::Unknown,
        }
    }
}

impl From<SandboxState> for Seen {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::Running,
            SandboxState::NotReady => Self::Exited,
            SandboxState::Unknown => Self::Unknown,
        }
    }
}

/// The last thing that was reported to subscribers about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Told {
    /// Nothing, not even that it exists.
    Nothing,
    /// That it started.
    Started,
    /// That it died.
    Died,
}

/// What is committed about something: the state in which it was last seen, and what has been reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Known {
    /// Seen running; its start has been reported.
    Running,
    /// Seen exited; its death has been reported.
    Exited,
    /// Seen in a state that is not reported; the last report before that is remembered.
    Unknown(Told),
}

impl Known {
    /// The last report to subscribers.
    #[must_use]
    pub(crate) const fn told(self) -> Told {
        match self {
            Self::Running => Told::Started,
            Self::Exited => Told::Died,
            Self::Unknown(told) => told,
        }
    }
}

/// The events for something known as `old` (`None`: not known) that is seen as `new` (`None`: not in the list).
#[must_use]
pub(crate) const fn events(old: Option<Known>, new: Option<Seen>) -> &'static [EventKind] {
    use EventKind::{ContainerChanged, ContainerDied, ContainerRemoved, ContainerStarted};
    match (old, new) {
        (None, None)
        | (Some(Known::Running), Some(Seen::Running))
        | (Some(Known::Exited), Some(Seen::Exited))
        | (Some(Known::Unknown(_)), Some(Seen::Unknown)) => &[],

        (None | Some(Known::Exited | Known::Unknown(Told::Nothing | Told::Died)), Some(Seen::Running)) => {
            &[ContainerStarted]
        }
        (None | Some(Known::Running | Known::Unknown(Told::Nothing | Told::Started)), Some(Seen::Exited)) => {
            &[ContainerDied]
        }

        (None | Some(Known::Running | Known::Exited), Some(Seen::Unknown))
        | (Some(Known::Unknown(Told::Started)), Some(Seen::Running))
        | (Some(Known::Unknown(Told::Died)), Some(Seen::Exited)) => &[ContainerChanged],

        (Some(Known::Exited | Known::Unknown(Told::Died)), None) => &[ContainerRemoved],
        (Some(Known::Running | Known::Unknown(Told::Nothing | Told::Started)), None) => {
            &[ContainerDied, ContainerRemoved]
        }
    }
}

/// Whether reporting the state `between` before the state `next` yields more events than reporting `next` alone.
#[must_use]
pub(crate) fn is_told_by(between: Seen, old: Option<Known>, next: Option<Seen>) -> bool {
    // What is running has not ended, whatever was reported before.
    let is_taken_back = between == Seen::Exited && next == Some(Seen::Running);
    let at_once = events(old, next);
    let one_by_one = events(old, Some(between)).iter().chain(events(Some(commit(old, between)), next));
    !is_taken_back && one_by_one.into_iter().any(|kind| kind.is_delivered() && !at_once.contains(kind))
}

/// What is known once `new` has been committed over `old`.
#[must_use]
pub(crate) const fn commit(old: Option<Known>, new: Seen) -> Known {
    match new {
        Seen::Running => Known::Running,
        Seen::Exited => Known::Exited,
        Seen::Unknown => Known::Unknown(match old {
            Some(known) => known.told(),
            None => Told::Nothing,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::{
        ContainerChanged as Changed, ContainerDied as Died, ContainerRemoved as Removed,
        ContainerStarted as Started,
    };

    const SEEN: [Option<Seen>; 4] = [None, Some(Seen::Running), Some(Seen::Exited), Some(Seen::Unknown)];

    /// The kubelet's table, row by row; its `unknown` is ours with nothing reported before.
    #[test]
    fn the_table_of_the_kubelet() {
        let rows: [(Option<Known>, [&[EventKind]; 4]); 4] = [
            //                                     absent            running     exited    unknown
            (None, [&[], &[Started], &[Died], &[Changed]]),
            (Some(Known::Running), [&[Died, Removed], &[], &[Died], &[Changed]]),
            (Some(Known::Exited), [&[Removed], &[Started], &[], &[Changed]]),
            (Some(Known::Unknown(Told::Nothing)), [&[Died, Removed], &[Started], &[Died], &[]]),
        ];
        for (old, expected) in rows {
            for (new, expected) in SEEN.into_iter().zip(expected) {
                assert_eq!(events(old, new), expected, "{old:?} -> {new:?}");
            }
        }
    }

    #[test]
    fn a_pass_through_unknown_tells_nothing_new() {
        let rows: [(Told, [&[EventKind]; 4]); 2] = [
            (Told::Started, [&[Died, Removed], &[Changed], &[Died], &[]]),
            (Told::Died, [&[Removed], &[Started], &[Changed], &[]]),
        ];
        for (told, expected) in rows {
            for (new, expected) in SEEN.into_iter().zip(expected) {
                assert_eq!(events(Some(Known::Unknown(told)), new), expected, "{told:?} -> {new:?}");
            }
        }
    }

    #[test]
    fn seeing_the_same_again_tells_nothing() {
        for old in [None, Some(Known::Running), Some(Known::Exited), Some(Known::Unknown(Told::Died))] {
            for seen in [Seen::Running, Seen::Exited, Seen::Unknown] {
                let known = commit(old, seen);
                assert_eq!(events(Some(known), Some(seen)), &[] as &[EventKind], "{old:?} -> {seen:?} twice");
            }
        }
    }

    #[test]
    fn created_counts_as_unknown_and_not_ready_as_exited() {
        assert_eq!(Seen::from(ContainerState::Created), Seen::Unknown);
        assert_eq!(Seen::from(ContainerState::Unknown), Seen::Unknown);
        assert_eq!(Seen::from(SandboxState::NotReady), Seen::Exited);
        assert_eq!(Seen::from(SandboxState::Ready), Seen::Running);
    }
}
