//! One change at a time, with time enough to be found: then the counter of what was found without having been announced
//! is the number of events that the runtime does not send, or that were dropped.

use std::time::Duration;

use pleg::{Config, Metrics, Pleg};
use rubelet_runtime::synthetic::{
    ContainerId, ContainerState, EventFaults, EventKind, PodSpec, Profile, SandboxId, SandboxState, What,
    World,
};

use crate::node::{Node, clock};
use crate::pass;

/// The longest that something can go unnoticed, and the time for which an announcement is waited for.
const FOUND_OUT: Duration = Duration::from_secs(64);

pub(crate) async fn one_change_at_a_time(seed: u64) {
    let profile = [Profile::Ctd2, Profile::Ctd17, Profile::CrioOn][(seed % 3) as usize];
    let context = format!("seed {seed}, {profile}");
    let mut random = fastrand::Rng::with_seed(seed);
    let node = Node::new(profile, seed, clock(seed));
    let metrics = Metrics::default();
    let mut pleg = Pleg::new(node.clone(), Config::default(), metrics.clone());
    pleg.start();
    pass(Duration::from_secs(5)).await;
    node.runtime.events().tamper(EventFaults {
        drop: 0.3,
        double: 0.2,
        reorder: 0.2,
        delay: 0.2,
        delay_by: (Duration::from_millis(1), Duration::from_millis(1_500)),
        ..EventFaults::default()
    });
    for number in 0..random.usize(4..16) {
        if let Some(removed) = node.runtime.world(|world| change_one_thing(world, &mut random, number)) {
            // Some runtimes announce a removal first.
            node.runtime.world(|world| world.begin_sandbox_removal(&removed));
            pass(Duration::from_millis(random.u64(..600))).await;
            node.runtime.world(|world| world.finish_sandbox_removal(&removed));
        }
        pass(FOUND_OUT).await;
    }
    assert_eq!(counted(&metrics), expected(&node), "{context}");
}

/// Returns the sandbox that is to be removed, if that is the change.
fn change_one_thing(world: &mut World, random: &mut fastrand::Rng, number: usize) -> Option<SandboxId> {
    let sandboxes: Vec<(SandboxId, SandboxState)> =
        world.sandboxes().map(|sandbox| (sandbox.id().clone(), sandbox.state())).collect();
    let containers: Vec<(ContainerId, ContainerState)> =
        world.containers().map(|container| (container.id().clone(), container.state())).collect();
    let choice = random.u8(..10);
    if sandboxes.is_empty() || choice == 0 {
        let name = format!("pod-{number}");
        world.add_pod(if random.u8(..4) == 0 { PodSpec::by_hand(name) } else { PodSpec::new("lab", name) });
    } else if containers.is_empty() || choice < 3 {
        let (sandbox, state) = &sandboxes[random.usize(..sandboxes.len())];
        match (state, random.u8(..4)) {
            (SandboxState::Ready, 0) => world.sandbox_dies(sandbox),
            (SandboxState::Ready, _) => {
                world.create(sandbox, format!("c{number}"));
            }
            _ => return Some(sandbox.clone()),
        }
    } else {
        let (container, state) = &containers[random.usize(..containers.len())];
        match (state, random.u8(..4)) {
            (ContainerState::Created, 1..) => world.start(container),
            (ContainerState::Running, 1..) => world.exit(container, [0, 1, 137, 255][random.usize(..4)]),
            _ => world.remove(container),
        }
    }
    None
}

/// How many changes of the world no event reached the PLEG about.
fn expected(node: &Node) -> usize {
    let lost = node.runtime.events().lost();
    node.runtime.world(|world| {
        let changes = world.history().iter();
        let unheard = changes.filter(|change| {
            let needed = match (change.what, &change.container) {
                // A sandbox runs from the start.
                (What::Created, None) | (What::Started, _) => EventKind::Started,
                (What::Stopped, _) => EventKind::Stopped,
                (What::Removed, _) => EventKind::Deleted,
                (What::Created, Some(_)) | (What::Unknown | What::Altered, _) => return false,
            };
            let was_lost = lost.iter().any(|lost| {
                lost.kind == needed && lost.sandbox == change.sandbox && lost.container == change.container
            });
            was_lost || !change.announced.contains(&needed)
        });
        unheard.count()
    })
}

fn counted(metrics: &Metrics) -> usize {
    let mut registry = prometheus_client::registry::Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    let value = text.lines().find_map(|line| line.strip_prefix("pleg_unannounced_transitions_total "));
    value.expect("the counter is there").parse().expect("a number")
}
