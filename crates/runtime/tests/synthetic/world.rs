//! The world by itself: what one-liners do, and what holds after any number of random steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rubelet_runtime::synthetic::{
    Container, ContainerId, ContainerState, EventKind, PodSpec, Profile, SandboxState, Stir, What, World,
};

#[test]
fn each_change_has_a_time_of_its_own_and_the_clock_can_be_set() {
    let mut world = World::new(Profile::Ctd2, 1);
    let pod = world.add_pod(PodSpec::from("p").container("a").container("b"));
    world.exit(&pod.containers[0], 1);
    let times: Vec<i64> = world.history().iter().map(|change| change.at).collect();
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");

    let before = world.now();
    world.advance(Duration::from_secs(8 * 3600));
    world.exit(&pod.containers[1], 1);
    world.set_clock(before);
    let late = world.history().last().unwrap().at;
    assert!(late > before + 8 * 3600 * 1_000_000_000);
    world.remove(&pod.containers[1]);
    assert!(world.history().last().unwrap().at < late, "as after a step of ntpd");
}

#[test]
fn a_pod_gets_another_sandbox_and_its_containers_count_on() {
    let mut world = World::new(Profile::Ctd2, 1);
    let pod = world.add_pod(PodSpec::from("p").container("c"));
    world.stop_sandbox(&pod.sandbox);
    assert_eq!(world.container(&pod.containers[0]).unwrap().exit_code(), 137);
    let second = world.add_sandbox(&pod.uid);
    let container = world.run(&second, "c");
    assert_eq!(world.sandbox(&second).unwrap().attempt(), 1);
    assert_eq!(world.container(&container).unwrap().attempt(), 1);
    assert_eq!(world.pod_of(&container), Some(&pod.uid));
    assert_eq!(world.sandboxes_of(&pod.uid).count(), 2);
    world.remove_pod(&pod.uid);
    assert_eq!((world.pods().len(), world.containers().len()), (0, 0));
}

#[test]
fn what_is_done_quietly_leaves_no_trace() {
    let mut world = World::new(Profile::Ctd2, 1);
    world.quietly(|world| world.add_pod(PodSpec::from("p").container("c")));
    assert_eq!(world.containers().len(), 1);
    assert!(world.history().is_empty() && world.take_events().is_empty());
}

#[test]
#[should_panic(expected = "it cannot exit")]
fn what_cannot_be_is_the_tests_mistake() {
    let mut world = World::new(Profile::Ctd2, 1);
    let pod = world.add_pod("p");
    let container = world.create(&pod.sandbox, "never-started");
    world.exit(&container, 1);
}

#[test]
fn a_runtime_without_events_announces_nothing() {
    for profile in [Profile::Ctd16, Profile::CrioOff] {
        let mut world = World::new(profile, 1);
        world.add_pod(PodSpec::from("p").container("c"));
        assert!(world.take_events().is_empty());
        assert!(world.history().iter().all(|change| change.announced.is_empty()), "{profile}");
    }
}

fn profiles() -> impl Strategy<Value = Profile> {
    proptest::sample::select(Profile::ALL.to_vec())
}

proptest! {
    #[test]
    fn the_history_tells_how_the_world_came_to_be(profile in profiles(), seed: u64, steps in 0_usize..300) {
        let mut world = World::new(profile, seed);
        world.stir(steps, Stir::default());
        let mut containers: BTreeMap<ContainerId, ContainerState> = BTreeMap::new();
        let mut sandboxes = BTreeMap::new();
        for change in world.history() {
            match &change.container {
                Some(id) => match change.what {
                    What::Removed => { containers.remove(id); }
                    What::Created => { containers.insert(id.clone(), ContainerState::Created); }
                    What::Started => { containers.insert(id.clone(), ContainerState::Running); }
                    What::Stopped => { containers.insert(id.clone(), ContainerState::Exited); }
                    What::Unknown => { containers.insert(id.clone(), ContainerState::Unknown); }
                    What::Altered => {}
                },
                None => match change.what {
                    What::Removed => { sandboxes.remove(&change.sandbox); }
                    What::Created | What::Started => {
                        sandboxes.insert(change.sandbox.clone(), SandboxState::Ready);
                    }
                    What::Stopped => { sandboxes.insert(change.sandbox.clone(), SandboxState::NotReady); }
                    What::Unknown | What::Altered => {}
                },
            }
        }
        let states = world.containers().map(|container| (container.id().clone(), container.state())).collect();
        prop_assert_eq!(containers, states);
        let states = world.sandboxes().map(|sandbox| (sandbox.id().clone(), sandbox.state())).collect();
        prop_assert_eq!(sandboxes, states);
    }

    #[test]
    fn events_are_those_that_the_history_says(profile in profiles(), seed: u64, steps in 0_usize..300) {
        let mut world = World::new(profile, seed);
        world.stir(steps, Stir::default());
        let count = |list: Vec<(String, EventKind)>| {
            let mut counts: BTreeMap<(String, u8), usize> = BTreeMap::new();
            for (id, kind) in list {
                *counts.entry((id, kind as u8)).or_default() += 1;
            }
            counts
        };
        let events = world.take_events();
        prop_assert!(events.iter().map(|event| event.number).eq(1..=events.len() as u64));
        let sent = events.iter().map(|event| (event.message.container_id.clone(), event.kind)).collect();
        let announced = world.history().iter().flat_map(|change| {
            let id = change.container.as_ref().map_or(change.sandbox.as_str(), ContainerId::as_str);
            change.announced.iter().map(move |kind| (id.to_owned(), *kind))
        });
        prop_assert_eq!(count(sent), count(announced.collect()));
    }

    #[test]
    fn the_same_seed_takes_the_same_steps(profile in profiles(), seed: u64) {
        let run = |seed| {
            let mut world = World::new(profile, seed);
            world.stir(100, Stir::default());
            (world.history().to_vec(), world.take_events())
        };
        let first = run(seed);
        prop_assert_eq!(&first, &run(seed));
        prop_assert_ne!(first.0, run(seed.wrapping_add(1)).0);
    }

    #[test]
    fn nobody_is_lost_between_pods_sandboxes_and_containers(seed: u64, steps in 0_usize..300) {
        let mut world = World::new(Profile::Ctd2, seed);
        world.stir(steps, Stir { unannounced: false, ..Stir::default() });
        let all: BTreeSet<&ContainerId> = world.containers().map(Container::id).collect();
        let found: BTreeSet<&ContainerId> = world
            .pods()
            .flat_map(|pod| world.sandboxes_of(pod))
            .flat_map(|sandbox| world.containers_of(sandbox.id()))
            .map(Container::id)
            .collect();
        prop_assert_eq!(all, found);
        prop_assert!(world.history().iter().all(|change| !change.announced.is_empty()
            || change.what == What::Unknown || change.what == What::Started));
    }
}
