//! Much happens at once, and every event arrives: then the end of every container is told once, with its exit code, even
//! of those that nobody ever saw.

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::{Config, Metrics, Pleg};
use rubelet_runtime::synthetic::{ContainerId, ContainerState, EventFaults, Profile, SandboxState, World};

use crate::heard::Heard;
use crate::node::Node;
use crate::pass;

pub(crate) async fn in_bursts(seed: u64) {
    let profile = [Profile::Ctd2, Profile::Ctd17, Profile::CrioOn][(seed % 3) as usize];
    let context = format!("seed {seed}, {profile}");
    let mut random = fastrand::Rng::with_seed(seed);
    let node = Node::new(profile, seed);
    let mut pleg = Pleg::new(node.clone(), Config::default(), Metrics::default());
    let handle = pleg.handle();
    let heard = Heard::by_subscribing(&handle);
    pleg.start();
    pass(Duration::from_secs(5)).await;
    // In order, since an end that is announced after it was found out comes too late.
    node.runtime.events().tamper(EventFaults { double: 0.2, ..EventFaults::default() });

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
    heard.assert_facts_are_told_once_and_in_order(&context);
    for (container, (pod, code)) in ended {
        if heard.is_merged(&pod) {
            continue;
        }
        let told: Vec<_> =
            heard.ends(container.as_str()).into_iter().map(|exit| exit.map(|exit| exit.code)).collect();
        assert_eq!(told, [Some(code)], "{context}: the end of {container}");
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
