//! The steps of a history.

use proptest::prelude::*;
use rubelet_model::{ContainerState, SandboxState};

use super::PODS;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// `code` is the exit code of the container, once it ends.
    Create {
        pod: usize,
        state: ContainerState,
        code: i32,
    },
    Change {
        pod: usize,
        which: usize,
        state: ContainerState,
        code: i32,
    },
    /// The runtime finds out how a container really ended.
    KnowBetter {
        pod: usize,
        which: usize,
    },
    Sandbox {
        pod: usize,
        state: SandboxState,
    },
    Remove {
        pod: usize,
        which: usize,
    },
    RemovePod {
        pod: usize,
    },
    Pass {
        millis: u64,
    },
    AnswerList,
    FailList,
    /// The runtime restarts: the next answer comes over a new connection, and may lack a pod or one of its containers.
    Reconnect {
        forgets: Option<(usize, Option<usize>)>,
    },
    Nudge {
        pod: usize,
    },
    AnswerLook {
        pod: usize,
    },
    FailLook {
        pod: usize,
    },
    /// If `is_quick`, the answer shows what is true when it is given; otherwise, what was true when the inspection
    /// began.
    Inspect {
        which: usize,
        fails: bool,
        is_quick: bool,
    },
    Reinspect {
        pod: usize,
    },
    Interrupt,
    OpenStream,
    EndStream,
    /// The runtime announces something that happened: in any order, once, twice or not at all, and perhaps without its
    /// pod.
    Announce {
        which: usize,
        times: usize,
        names_pod: bool,
    },
}

fn state() -> impl Strategy<Value = ContainerState> {
    prop::sample::select(ContainerState::ALL.to_vec())
}

/// Most of these exit codes are not believed at once, or may turn out otherwise.
fn code() -> impl Strategy<Value = i32> {
    prop::sample::select(vec![7, 7, 255, -1, 137, 137])
}

fn op() -> impl Strategy<Value = Op> {
    let pod = 0..PODS.len();
    prop_oneof![
        4 => (pod.clone(), state(), code()).prop_map(|(pod, state, code)| Op::Create { pod, state, code }),
        6 => (pod.clone(), 0..4_usize, state(), code())
            .prop_map(|(pod, which, state, code)| Op::Change { pod, which, state, code }),
        3 => (pod.clone(), 0..4_usize).prop_map(|(pod, which)| Op::KnowBetter { pod, which }),
        3 => (pod.clone(), prop::sample::select(vec![
                SandboxState::Ready, SandboxState::NotReady, SandboxState::Unknown,
            ])).prop_map(|(pod, state)| Op::Sandbox { pod, state }),
        3 => (pod.clone(), 0..4_usize).prop_map(|(pod, which)| Op::Remove { pod, which }),
        1 => pod.clone().prop_map(|pod| Op::RemovePod { pod }),
        6 => (1..2_500_u64).prop_map(|millis| Op::Pass { millis }),
        6 => Just(Op::AnswerList),
        1 => Just(Op::FailList),
        1 => prop::option::of((pod.clone(), prop::option::of(0..3_usize))).prop_map(|forgets| Op::Reconnect { forgets }),
        3 => pod.clone().prop_map(|pod| Op::Nudge { pod }),
        3 => pod.clone().prop_map(|pod| Op::AnswerLook { pod }),
        1 => pod.clone().prop_map(|pod| Op::FailLook { pod }),
        9 => (0..3_usize, prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(which, fails, is_quick)| Op::Inspect { which, fails, is_quick }),
        1 => pod.prop_map(|pod| Op::Reinspect { pod }),
        1 => Just(Op::Interrupt),
        2 => Just(Op::OpenStream),
        1 => Just(Op::EndStream),
        9 => (0..6_usize, 0..3_usize, prop::bool::weighted(0.7))
            .prop_map(|(which, times, names_pod)| Op::Announce { which, times, names_pod }),
    ]
}

pub(super) fn history() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 0..120)
}

/// The steps of a busy pod: much happens to it within a second or two, and it is looked at all the time.
fn busy_op() -> impl Strategy<Value = Vec<Op>> {
    let (pod, which) = (0, 0..3_usize);
    let change = |state| {
        (which.clone(), code()).prop_map(move |(which, code)| vec![Op::Change { pod, which, state, code }])
    };
    let inspect =
        |fails| any::<bool>().prop_map(move |is_quick| vec![Op::Inspect { which: 0, fails, is_quick }]);
    prop_oneof![
        2 => Just(vec![Op::Create { pod, state: ContainerState::Running, code: 7 }]),
        1 => change(ContainerState::Running),
        3 => change(ContainerState::Exited),
        2 => which.clone().prop_map(move |which| vec![Op::KnowBetter { pod, which }]),
        1 => Just(vec![Op::Sandbox { pod, state: SandboxState::Ready }]),
        2 => which.clone().prop_map(move |which| vec![Op::Remove { pod, which }]),
        6 => Just(vec![Op::Nudge { pod }, Op::AnswerLook { pod }]),
        6 => (20..350_u64).prop_map(|millis| vec![Op::Pass { millis }]),
        3 => Just(vec![Op::AnswerList]),
        8 => inspect(false),
        1 => inspect(true),
        1 => Just(vec![Op::OpenStream]),
        2 => (0..2_usize).prop_map(|which| vec![Op::Announce { which, times: 1, names_pod: true }]),
    ]
}

fn busy_history() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(busy_op(), 0..60).prop_map(|ops| ops.concat())
}

/// Histories of a whole node, or of a single busy pod.
pub(super) fn any_history() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![1 => history(), 4 => busy_history()]
}
