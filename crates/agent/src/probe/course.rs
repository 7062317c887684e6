//! The course of one probe of one instance of a container: its verdict after all answers so far. Pure.
//!
//! | | startup | liveness | readiness |
//! |---|---|---|---|
//! | before any answer | none | success | failure |
//! | runs while | not started | started | started |
//! | reports success after | `successThreshold` answers in a row | the same | the same |
//! | reports failure after | `failureThreshold` answers in a row | the same | the same |
//! | is final after | any verdict | failure | – |

use k8s_openapi::api::core::v1::{Container, Probe};

/// What a probe concludes about a container after enough equal answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Startup, Self::Liveness, Self::Readiness];

    /// Returns the kubelet's name for it, as used in events and metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// Returns the container's probe of this kind.
    pub(super) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }

    /// Returns the verdict on a new instance before any answer.
    pub(super) const fn initial(self) -> Option<Verdict> {
        match self {
            Self::Startup => None,
            Self::Liveness => Some(Verdict::Success),
            Self::Readiness => Some(Verdict::Failure),
        }
    }

    /// Whether it waits until the startup probe has found that the container has started.
    pub(super) const fn waits_for_start(self) -> bool {
        match self {
            Self::Startup => false,
            Self::Liveness | Self::Readiness => true,
        }
    }

    /// Whether it continues while the pod is ending.
    pub(super) const fn outlives_order_to_end(self) -> bool {
        match self {
            Self::Startup | Self::Liveness => false,
            Self::Readiness => true,
        }
    }

    /// Whether nothing can follow this verdict: the instance has started for good, or is to be killed.
    pub(super) fn is_final(self, verdict: Option<Verdict>) -> bool {
        match self {
            Self::Startup => verdict.is_some(),
            Self::Liveness => verdict == Some(Verdict::Failure),
            Self::Readiness => false,
        }
    }
}

/// How many equal answers in a row are needed before they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub(super) success: u32,
    pub(super) failure: u32,
}

impl Thresholds {
    pub(super) fn of(probe: &Probe) -> Self {
        let read = |value: Option<i32>, default| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Self { success: read(probe.success_threshold, 1), failure: read(probe.failure_threshold, 3) }
    }
}

/// The course of one probe of one instance of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Course {
    kind: Kind,
    thresholds: Thresholds,
    verdict: Option<Verdict>,
    /// The last answer, and how many times in a row it has come.
    run: Option<(Verdict, u32)>,
}

impl Course {
    /// Starts a course, or continues it from what was known before this agent started.
    pub(super) fn begin(kind: Kind, thresholds: Thresholds, known: Option<Verdict>) -> Self {
        Self { kind, thresholds, verdict: known.or(kind.initial()), run: None }
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Returns whether the verdict is final: only a new instance starts over.
    pub(super) fn is_over(&self) -> bool {
        self.kind.is_final(self.verdict)
    }

    /// Takes an answer; `None` means that the container could not be asked, which says nothing and does not interrupt a
    /// row.
    pub(super) fn hear(&mut self, answer: Option<Verdict>) {
        let Some(answer) = answer else { return };
        if self.is_over() {
            return;
        }
        let times = match self.run {
            Some((last, times)) if last == answer => times.saturating_add(1),
            _ => 1,
        };
        self.run = Some((answer, times));
        let needed = match answer {
            Verdict::Success => self.thresholds.success,
            Verdict::Failure => self.thresholds.failure,
        };
        if times >= needed {
            self.verdict = Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SUCCESS: Option<Verdict> = Some(Verdict::Success);
    const FAILURE: Option<Verdict> = Some(Verdict::Failure);

    /// Writes answers and verdicts as one letter each: `s`uccess, `f`ailure, `-` for none.
    fn letter(verdict: Option<Verdict>) -> char {
        match verdict {
            SUCCESS => 's',
            FAILURE => 'f',
            None => '-',
        }
    }

    fn told(mut course: Course, answers: &str) -> String {
        let mut said = String::from(letter(course.verdict()));
        for answer in answers.chars() {
            course.hear(match answer {
                's' => SUCCESS,
                'f' => FAILURE,
                _ => None,
            });
            said.push(letter(course.verdict()));
        }
        said
    }

    /// Kind, success and failure thresholds, known before, answers → the verdict before and after each.
    type Row = (Kind, u32, u32, Option<Verdict>, &'static str, &'static str);

    #[test]
    fn answers_become_verdicts_by_the_thresholds() {
        let table: [Row; 17] = [
            (Kind::Liveness, 1, 3, None, "", "s"),
            (Kind::Readiness, 1, 3, None, "", "f"),
            (Kind::Startup, 1, 3, None, "", "-"),
            (Kind::Liveness, 1, 3, None, "fff", "sssf"),
            (Kind::Liveness, 1, 3, None, "ffsfff", "ssssssf"),
            // On hold: only a new instance counts as alive again.
            (Kind::Liveness, 1, 3, None, "fffsss", "sssffff"),
            (Kind::Readiness, 1, 3, None, "s", "fs"),
            (Kind::Readiness, 3, 1, None, "ssfsss", "ffffffs"),
            (Kind::Readiness, 1, 3, None, "sffsfff", "fssssssf"),
            (Kind::Readiness, 1, 2, None, "sffs", "fssfs"),
            (Kind::Startup, 1, 3, None, "ffs", "---s"),
            (Kind::Startup, 1, 3, None, "ffff", "---ff"),
            // On hold: it has started for good.
            (Kind::Startup, 1, 1, None, "sf", "-ss"),
            // A failure to ask says nothing, and neither extends nor interrupts a row.
            (Kind::Liveness, 1, 3, None, "f-f-f", "sssssf"),
            (Kind::Readiness, 1, 3, None, "---", "ffff"),
            // A restarted agent continues from what is known.
            (Kind::Startup, 1, 1, SUCCESS, "f", "ss"),
            (Kind::Readiness, 1, 3, SUCCESS, "fff", "sssf"),
        ];
        for (kind, success, failure, known, answers, wanted) in table {
            let course = Course::begin(kind, Thresholds { success, failure }, known);
            assert_eq!(told(course, answers), wanted, "{kind:?} {success} {failure} {known:?} {answers}");
        }
    }

    #[test]
    fn thresholds_have_defaults_and_are_at_least_one() {
        let of = |success, failure| {
            let probe = Probe { success_threshold: success, failure_threshold: failure, ..Probe::default() };
            let Thresholds { success, failure } = Thresholds::of(&probe);
            (success, failure)
        };
        assert_eq!(of(None, None), (1, 3));
        assert_eq!(of(Some(0), Some(-1)), (1, 3));
        assert_eq!(of(Some(2), Some(30)), (2, 30));
    }

    fn any_kind() -> impl Strategy<Value = Kind> {
        prop::sample::select(Kind::ALL.to_vec())
    }

    fn any_answer() -> impl Strategy<Value = Option<Verdict>> {
        prop::sample::select(vec![None, SUCCESS, FAILURE])
    }

    proptest! {
        /// A verdict changes only if its threshold of equal answers in a row came just before.
        #[test]
        fn a_verdict_changes_only_after_enough_equal_answers(
            kind in any_kind(),
            success in 1_u32..5,
            failure in 1_u32..5,
            answers in prop::collection::vec(any_answer(), 0..40),
        ) {
            let mut course = Course::begin(kind, Thresholds { success, failure }, None);
            let mut heard: Vec<Verdict> = Vec::new();
            for answer in answers {
                let before = course.verdict();
                let was_over = course.is_over();
                course.hear(answer);
                heard.extend(answer);
                let after = course.verdict();
                if after == before {
                    continue;
                }
                prop_assert!(!was_over, "nothing follows a final verdict");
                let needed = if after == SUCCESS { success } else { failure } as usize;
                prop_assert!(heard.len() >= needed);
                prop_assert!(heard[heard.len() - needed..].iter().all(|one| Some(*one) == after));
            }
        }

        /// Enough equal answers in a row always count, unless the verdict was final before.
        #[test]
        fn enough_equal_answers_always_count(
            kind in any_kind(),
            success in 1_u32..5,
            failure in 1_u32..5,
            before in prop::collection::vec(any_answer(), 0..20),
            last in prop::sample::select(vec![Verdict::Success, Verdict::Failure]),
        ) {
            let mut course = Course::begin(kind, Thresholds { success, failure }, None);
            before.into_iter().for_each(|answer| course.hear(answer));
            let was_over = course.is_over();
            let verdict = course.verdict();
            (0..5).for_each(|_| course.hear(Some(last)));
            prop_assert_eq!(course.verdict(), if was_over { verdict } else { Some(last) });
        }
    }
}
