//! The stages in the life of a pod. It only ever goes forward.
//!
//! ```text
//! Pending ──may start──▶ Syncing ──end, or all done──▶ Terminating ──nothing runs──▶ Terminated ──forgotten──▶ (gone)
//!    └──────────end────────────────────────────────────────▲
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use pleg::Stamp;

use super::grace::pod_grace;
use super::mailbox::{End, Mail};
use super::spec;

/// The stage that a pod is in, with what matters there.
#[derive(Clone, Debug)]
pub(crate) enum Lifecycle {
    /// Another pod of its name has not ended yet.
    Pending { pod: Arc<Pod> },
    /// It is kept running.
    Syncing { pod: Arc<Pod> },
    /// It is being ended. Nothing of it is started any more.
    Terminating { pod: Arc<Pod>, ending: Ending },
    /// Nothing of it runs any more. Whatever comes up late gets what is left of its time.
    Terminated { pod: Arc<Pod>, ending: Ending },
}

/// How a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// How many seconds it was granted.
    pub(crate) grace: u64,
    /// When those seconds are over. `None` until the runtime could be told to end the pod: no time passes while the
    /// runtime is away.
    pub(crate) deadline: Option<Stamp>,
    /// Whether nothing of it may stay behind.
    pub(crate) forget: bool,
}

impl Ending {
    fn begin(pod: &Pod, end: End) -> Self {
        Self { grace: pod_grace(None, pod, end.grace), deadline: None, forget: end.forget }
    }

    /// Returns the same ending, or a sooner one.
    fn hasten(self, pod: &Pod, end: End, now: Stamp) -> Self {
        let grace = pod_grace(Some(self.grace), pod, end.grace);
        let sooner = now.plus(Duration::from_secs(grace));
        let deadline =
            self.deadline.map(|deadline| if grace < self.grace { deadline.min(sooner) } else { deadline });
        Self { grace, deadline, forget: self.forget || end.forget }
    }

    /// Returns the whole seconds that are left.
    pub(crate) fn left(&self, now: Stamp) -> u64 {
        let Some(deadline) = self.deadline else { return self.grace };
        // Rounded up, so that no pod gets less than what was granted because a moment has passed.
        let left = now.until(deadline);
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }
}

impl Lifecycle {
    /// Returns the first stage of a new pod.
    pub(crate) fn born(pod: Arc<Pod>) -> Self {
        Self::Pending { pod }
    }

    pub(crate) fn pod(&self) -> &Arc<Pod> {
        match self {
            Self::Pending { pod }
            | Self::Syncing { pod }
            | Self::Terminating { pod, .. }
            | Self::Terminated { pod, .. } => pod,
        }
    }

    /// Returns the next stage after `mail`.
    pub(crate) fn next(self, mail: Mail, now: Stamp) -> Self {
        let Mail { wish, end, may_start, look: _, refused: _ } = mail;
        let wished = wish.map(|wish| wish.pod);
        let is_deleted = spec::is_being_deleted(wished.as_ref().unwrap_or_else(|| self.pod()));
        let end = end.or_else(|| is_deleted.then_some(End { grace: None, forget: true }));
        match self {
            Self::Pending { pod } | Self::Syncing { pod } if end.is_some() => {
                let pod = wished.unwrap_or(pod);
                let ending = Ending::begin(&pod, end.unwrap_or_default());
                Self::Terminating { pod, ending }
            }
            Self::Pending { pod } if may_start => Self::Syncing { pod: wished.unwrap_or(pod) },
            Self::Pending { pod } => Self::Pending { pod: wished.unwrap_or(pod) },
            Self::Syncing { pod } => Self::Syncing { pod: wished.unwrap_or(pod) },
            // For a pod that is ending, a new spec no longer matters, except for how soon the pod should be gone.
            Self::Terminating { pod, ending } => {
                let granting = wished.as_ref().unwrap_or(&pod);
                let ending = ending.hasten(granting, end.unwrap_or_default(), now);
                Self::Terminating { pod, ending }
            }
            Self::Terminated { pod, ending } => {
                let granting = wished.as_ref().unwrap_or(&pod);
                let ending = ending.hasten(granting, end.unwrap_or_default(), now);
                Self::Terminated { pod, ending }
            }
        }
    }

    /// The pod has done all it had to do: it ends by itself, and stays for inspection.
    pub(crate) fn finished(self) -> Self {
        match self {
            Self::Pending { pod } | Self::Syncing { pod } => {
                let ending = Ending::begin(&pod, End::default());
                Self::Terminating { pod, ending }
            }
            ended @ (Self::Terminating { .. } | Self::Terminated { .. }) => ended,
        }
    }

    /// The runtime was available at `began`: from then on the pod's seconds pass.
    pub(crate) fn told(mut self, began: Stamp) -> Self {
        if let Self::Terminating { ending, .. } | Self::Terminated { ending, .. } = &mut self {
            ending.deadline.get_or_insert(began.plus(Duration::from_secs(ending.grace)));
        }
        self
    }

    /// Nothing of the pod runs any more.
    pub(crate) fn stopped(self) -> Self {
        match self {
            Self::Terminating { pod, ending } => Self::Terminated { pod, ending },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pod::mailbox::Wish;
    use crate::pod::testkit;

    fn at(seconds: u64) -> Stamp {
        Stamp::from_nanos(seconds * 1_000_000_000)
    }

    fn rank(lifecycle: &Lifecycle) -> u8 {
        match lifecycle {
            Lifecycle::Pending { .. } => 0,
            Lifecycle::Syncing { .. } => 1,
            Lifecycle::Terminating { .. } => 2,
            Lifecycle::Terminated { .. } => 3,
        }
    }

    fn pod(generation: i64) -> Arc<Pod> {
        let mut pod = testkit::pod("Always", &[], &["c0"]);
        pod.metadata.generation = Some(generation);
        Arc::new(pod)
    }

    fn wish(number: u64, pod: Arc<Pod>) -> Mail {
        Mail::wish(Wish { number, pod, source: None, objects: Arc::default(), resize_pending: None })
    }

    #[test]
    fn every_state_answers_every_kind_of_mail() {
        let ending = |seconds| Ending { grace: seconds, deadline: Some(at(seconds)), forget: false };
        let states = [
            Lifecycle::Pending { pod: pod(1) },
            Lifecycle::Syncing { pod: pod(1) },
            Lifecycle::Terminating { pod: pod(1), ending: ending(30) },
            Lifecycle::Terminated { pod: pod(1), ending: ending(30) },
        ];
        let forget = End { grace: None, forget: true };
        // mail → the rank of the next state, from each state
        let table = [
            (Mail::look(), [0, 1, 2, 3]),
            (Mail::may_start(), [1, 1, 2, 3]),
            (wish(1, pod(2)), [0, 1, 2, 3]),
            (Mail::end(forget), [2, 2, 2, 3]),
            (Mail::end(forget).join(Mail::may_start()), [2, 2, 2, 3]),
        ];
        for (mail, wanted) in table {
            for (state, wanted) in states.iter().zip(wanted) {
                assert_eq!(rank(&state.clone().next(mail.clone(), at(0))), wanted, "{state:?} {mail:?}");
            }
        }
    }

    #[test]
    fn the_newest_spec_counts_until_the_end_begins() {
        let generation = |lifecycle: &Lifecycle| lifecycle.pod().metadata.generation;
        let syncing = Lifecycle::born(pod(1)).next(Mail::may_start(), at(0));
        let syncing = syncing.next(wish(2, pod(2)), at(0));
        assert_eq!(generation(&syncing), Some(2));
        let ending = syncing.next(Mail::end(End::default()), at(0)).next(wish(3, pod(3)), at(0));
        assert_eq!(generation(&ending), Some(2));
    }

    #[test]
    fn a_deleted_pod_ends_with_the_grace_of_its_deletion() {
        let mut deleted = Pod::clone(&pod(2));
        deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
        deleted.metadata.deletion_grace_period_seconds = Some(5);
        let syncing = Lifecycle::Syncing { pod: pod(1) };
        let Lifecycle::Terminating { ending, .. } = syncing.next(wish(2, deleted.into()), at(10)) else {
            panic!("it should end");
        };
        assert_eq!(ending, Ending { grace: 5, deadline: None, forget: true });
    }

    #[test]
    fn a_pod_that_comes_deleted_is_ended() {
        let mut deleted = Pod::clone(&pod(1));
        deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
        ));
        let ending = Lifecycle::born(deleted.into()).next(Mail::may_start(), at(0));
        assert!(
            matches!(ending, Lifecycle::Terminating { ending: Ending { forget: true, .. }, .. }),
            "{ending:?}"
        );
    }

    #[test]
    fn a_pod_that_finished_stays_to_be_looked_at() {
        let ended = Lifecycle::Syncing { pod: pod(1) }.finished().stopped();
        let is_forgotten = |lifecycle: &Lifecycle| match lifecycle {
            Lifecycle::Terminated { ending, .. } => ending.forget,
            other => panic!("{other:?} has not ended"),
        };
        assert!(!is_forgotten(&ended));
        let forgotten = ended.next(Mail::end(End { grace: None, forget: true }), at(0));
        assert!(is_forgotten(&forgotten));
    }

    #[test]
    fn seconds_left_are_rounded_up() {
        let ending = Ending { grace: 30, deadline: Some(at(30)), forget: false };
        assert_eq!(ending.left(at(0)), 30);
        assert_eq!(ending.left(Stamp::from_nanos(1)), 30);
        assert_eq!(ending.left(at(12)), 18);
        assert_eq!(ending.left(at(31)), 0);
    }

    #[test]
    fn seconds_pass_from_when_the_pod_was_told_to_end() {
        let left = |lifecycle: &Lifecycle, now| match lifecycle {
            Lifecycle::Terminating { ending, .. } | Lifecycle::Terminated { ending, .. } => {
                ending.left(at(now))
            }
            other => panic!("{other:?} does not end"),
        };
        let ending = Lifecycle::Syncing { pod: pod(1) }.next(Mail::end(End::default()), at(0));
        assert_eq!(left(&ending, 100), 30, "nobody could tell it");
        let told = ending.told(at(100));
        assert_eq!(left(&told, 110), 20);
        assert_eq!(left(&told.clone().told(at(110)), 110), 20, "once");
        let hastened = told.next(Mail::end(End { grace: Some(5), forget: false }), at(110));
        assert_eq!(left(&hastened, 110), 5);
        let stopped = hastened.stopped();
        assert_eq!([left(&stopped, 112), left(&stopped, 200)], [3, 0], "also of what comes up late");
        let hastened = stopped.next(Mail::end(End { grace: Some(1), forget: false }), at(112));
        assert_eq!(left(&hastened, 112), 1);
    }

    proptest! {
        #[test]
        fn life_goes_forward_and_grace_and_deadline_never_grow(
            steps in prop::collection::vec((0_u8..7, prop::option::of(0_u64..60), any::<bool>()), 1..20)
        ) {
            let mut lifecycle = Lifecycle::born(pod(0));
            for (number, (kind, grace, forget)) in steps.into_iter().enumerate() {
                let now = at(number as u64);
                let before = lifecycle.clone();
                lifecycle = match kind {
                    0 => lifecycle.next(Mail::look(), now),
                    1 => lifecycle.next(Mail::may_start(), now),
                    2 => lifecycle.next(wish(number as u64, pod(number as i64)), now),
                    3 => lifecycle.next(Mail::end(End { grace, forget }), now),
                    4 => lifecycle.finished(),
                    5 => lifecycle.told(now),
                    _ => lifecycle.stopped(),
                };
                prop_assert!(rank(&lifecycle) >= rank(&before), "{:?} → {:?}", before, lifecycle);
                let ending = |lifecycle: &Lifecycle| match lifecycle {
                    Lifecycle::Terminating { ending, .. } | Lifecycle::Terminated { ending, .. } => Some(*ending),
                    Lifecycle::Pending { .. } | Lifecycle::Syncing { .. } => None,
                };
                if let (Some(old), Some(new)) = (ending(&before), ending(&lifecycle)) {
                    prop_assert!(new.grace <= old.grace && new.left(now) <= old.left(now));
                    prop_assert!(new.forget || !old.forget);
                }
            }
        }
    }
}
