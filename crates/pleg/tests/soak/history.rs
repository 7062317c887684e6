//! A random history: what happens on the node, what happens to its event stream, and when.

use std::time::Duration;

use rubelet_runtime::synthetic::{EventFaults, LocalRuntime, Profile, Restart, Stir};
use tonic::Status;

use crate::node::clock;

pub(crate) struct History {
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    /// What time the runtime says it is at the start.
    pub(crate) clock: i64,
    /// What happens, and how long nothing happens after it.
    pub(crate) steps: Vec<(Step, Duration)>,
    /// Whether a status may change without any sign, so that only an inspection finds it.
    pub(crate) has_silent_changes: bool,
    /// Whether a restarted runtime may not know containers that it knows again after the next restart.
    pub(crate) has_returns: bool,
}

pub(crate) enum Step {
    /// Something, this many times.
    Stir(usize),
    /// From now on, events fare like this.
    Faults(EventFaults),
    /// The streams end, cleanly or not.
    EndStreams { cleanly: bool },
    /// Streams stay open and say nothing, for so long.
    Silence(Duration),
    /// The runtime is away for so long, while things go on.
    Restart { away: Duration, changes: usize, how: Restart },
}

impl History {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let profile = Profile::ALL[(seed % 5) as usize];
        let (has_silent_changes, has_returns) = (random.bool(), random.u8(..4) == 0);
        let mut steps = vec![(Step::Faults(faults(&mut random)), pause(&mut random))];
        for _ in 0..random.usize(5..25) {
            let step = match random.u8(..20) {
                0 => Step::Faults(faults(&mut random)),
                1 => Step::EndStreams { cleanly: random.bool() },
                2 => Step::Silence(pause(&mut random)),
                3 => Step::Restart {
                    away: pause(&mut random),
                    changes: random.usize(..5),
                    how: restart(&mut random, has_silent_changes, has_returns),
                },
                _ => Step::Stir(random.usize(1..6)),
            };
            steps.push((step, pause(&mut random)));
        }
        Self { seed, profile, clock: clock(seed), steps, has_silent_changes, has_returns }
    }

    /// Lets it happen.
    pub(crate) async fn play(&self, runtime: &LocalRuntime) {
        let how = Stir { pods: 4, containers: 3, unannounced: self.has_silent_changes, by_hand: true };
        for (step, pause) in &self.steps {
            match step {
                Step::Stir(times) => runtime.world(|world| world.stir(*times, how)),
                Step::Faults(faults) => runtime.events().tamper(faults.clone()),
                Step::EndStreams { cleanly } => {
                    runtime.events().end_streams((!cleanly).then(|| Status::internal("cut off")));
                }
                Step::Silence(time) => {
                    runtime.events().silence();
                    runtime.world(|world| world.stir(1, how));
                    tokio::time::sleep(*time).await;
                    runtime.events().speak();
                }
                Step::Restart { away, changes, how: restart } => {
                    runtime.go_down();
                    runtime.world(|world| world.stir(*changes, how));
                    tokio::time::sleep(*away).await;
                    runtime.come_up(restart);
                }
            }
            tokio::time::sleep(*pause).await;
        }
    }
}

/// Any length from none to longer than any period but the longest.
fn pause(random: &mut fastrand::Rng) -> Duration {
    let longest = [0, 10, 100, 100, 1_500, 1_500, 3_000, 30_000][random.usize(..8)];
    Duration::from_millis(random.u64(..=longest))
}

fn faults(random: &mut fastrand::Rng) -> EventFaults {
    if random.u8(..4) == 0 {
        return EventFaults::default();
    }
    EventFaults {
        drop: 0.3,
        double: 0.2,
        reorder: 0.2,
        delay: 0.2,
        delay_by: (Duration::from_millis(1), Duration::from_millis(random.u64(2..5_000))),
        ..EventFaults::default()
    }
}

fn restart(random: &mut fastrand::Rng, may_change_silently: bool, may_return: bool) -> Restart {
    let mut how = Restart::clean();
    if random.bool() {
        how = how.partial_lists(1, [0.5, 1.0][random.usize(..2)]);
    }
    if random.u8(..3) == 0 {
        how = how.containers_unknown(0.5);
    }
    if random.u8(..3) == 0 {
        how = how.sandboxes_not_ready(0.5);
    }
    if may_change_silently && random.u8(..3) == 0 {
        how = how.lose_ips();
    }
    if may_return && random.bool() {
        how = how.containers_unloaded(0.5);
    }
    how
}
