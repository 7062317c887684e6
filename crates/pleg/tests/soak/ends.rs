//! Much happens at once, and every event arrives, if late, twice or in another order: then the end of every container is
//! told once, with its exit code, even of those that nobody ever saw.

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::{Config, Metrics, Pleg};
use rubelet_runtime::synthetic::{ContainerId, ContainerState, EventFaults, Profile, SandboxState, World};

use crate::heard::Heard;
use crate::node::{Node, clock};
use crate::pass;
use crate::run::patience;

/// By how many milliseconds an event is late, at most. For the end of something, 200 are waited.
const LATEST: u64 = 180;

pub(crate) async fn in_bursts(seed: u64) {
    let profile = [Profile::Ctd2, Profile::Ctd17, Profile::CrioOn][(seed % 3) as usize];
    let context = format!("seed {seed}, {profile}");
    let mut random = fastrand::Rng::with_seed(seed);
    let node = Node::new(profile, seed, clock(seed));
    let mut config = Config::default();
    config.start_patience = patience(seed);
    let mut pleg = Pleg::new(node.clone(), config, Metrics::default());
    let handle = pleg.handle();
    let heard = Heard::by_subscribing(&handle);
    pleg.start();
    pass(Duration::from_secs(5)).await;
    node.runtime.events().tamper(faults(&mut random));

    let mut ended = BTreeMap::new();
    for burst in 0..random.usize(1..6) {
        for step in 0..random.usize(1..8) {
            let name = format!("{burst}-{step}");
            ended.extend(node.runtime.world(|world| live_on(world, &mut random, &name)));
            if random.bool() {
                pass(Duration::from_millis(random.u64(..40))).await;
            }
        }
        pass(Duration::from_millis(random.u64(..3_000))).await;
    }
    pass(Duration::from_secs(70)).await;

    let heard = heard.lock();
    heard.assert_is(&node.truth(), &context);
    heard.assert_facts_are_told_once_and_in_order(false, &context);
    for (container, (pod, code)) in ended {
        if heard.is_merged(&pod) {
            continue;
        }
        let told: Vec<_> =
            heard.ends(container.as_str()).into_iter().map(|exit| exit.map(|exit| exit.code)).collect();
        assert_eq!(told, [Some(code)], "{context}: the end of {container}");
    }
}

/// None is late by more than what is waited for the last words of what is gone: an end that is announced after it was told
/// comes too late.
fn faults(random: &mut fastrand::Rng) -> EventFaults {
    let doubled = EventFaults { double: 0.2, ..EventFaults::default() };
    if random.u8(..3) == 0 {
        return doubled;
    }
    let latest = Duration::from_millis(random.u64(2..LATEST));
    EventFaults {
        reorder: 0.2,
        reorder_hold: latest,
        delay: 0.2,
        delay_by: (Duration::from_millis(1), latest),
        ..doubled
    }
}

/// Something happens to one pod; returns the containers that have ended by it.
fn live_on(
    world: &mut World,
    random: &mut fastrand::Rng,
    name: &str,
) -> Vec<(ContainerId, (rubelet_model::PodUid, i32))> {
    let ready: Vec<_> = world
        .sandboxes()
        .filter(|sandbox| sandbox.state() == SandboxState::Ready)
        .map(|sandbox| (sandbox.id().clone(), sandbox.pod().clone()))
        .collect();
    if ready.is_empty() || (ready.len() < 4 && random.u8(..4) == 0) {
        world.add_pod(format!("lab/{name}").as_str());
        return Vec::new();
    }
    let (sandbox, pod) = ready[random.usize(..ready.len())].clone();
    let code = random.i32(0..100);
    let running: Vec<ContainerId> = world
        .containers_of(&sandbox)
        .filter(|container| container.state() == ContainerState::Running)
        .map(|container| container.id().clone())
        .collect();
    match (random.u8(..6), running.first()) {
        (0, _) => {
            world.run(&sandbox, name);
            Vec::new()
        }
        (1, Some(container)) => {
            world.exit(container, code);
            vec![(container.clone(), (pod, code))]
        }
        (2, Some(container)) => {
            world.remove(container);
            vec![(container.clone(), (pod, 137))]
        }
        (3, _) => {
            world.remove_sandbox(&sandbox);
            running.into_iter().map(|container| (container, (pod.clone(), 137))).collect()
        }
        _ => {
            // All of its life between two looks.
            let container = world.create(&sandbox, name);
            world.start_and_exit(&container, code);
            world.remove(&container);
            vec![(container, (pod, code))]
        }
    }
}
