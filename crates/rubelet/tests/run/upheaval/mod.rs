//! Pods that start, change and end all the time, while the agent and its runtime are killed all the time: there must
//! never be two containers of the same name, never a lost pod, and nothing left at the end.
//!
//! This is the short version; `cargo xtask soak agent` runs a longer one, through these variables:

mod churn;
mod ground;
mod pods;
mod witness;

use self::churn::Churn;
use self::ground::Ground;
use crate::node::Node;

/// How often something is killed.
const KILLS: &str = "RUBELET_UPHEAVAL_KILLS";
/// How often one manifest is rewritten.
const VERSIONS: &str = "RUBELET_UPHEAVAL_VERSIONS";
/// The seed for random choices. It decides what is done, but not at which point processes are interrupted.
const SEED: &str = "RUBELET_UPHEAVAL_SEED";

fn number(variable: &str, usual: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

fn upheaval(ground: Ground) {
    let (kills, seed) = (number(KILLS, 5), number(SEED, 1));
    let Some(mut churn) = Churn::start(ground, seed) else { return };
    for kill in 1..=kills {
        churn.disturb();
        if kill % 20 == 0 || kill == kills {
            churn.settle();
            println!("{kill} of {kills} kills, seed {seed}: {}", churn.tally());
        }
    }
    churn.leave_nothing();
}

#[test]
fn embedded_pods_survive_kills_of_their_agent() {
    upheaval(Ground::Inside);
}

#[test]
fn runtime_pods_survive_kills_of_agent_and_runtime() {
    let Some(ground) = Ground::beside() else { return };
    upheaval(ground);
}

#[test]
fn containerd_pods_survive_kills_of_agent_and_containerd() {
    let Some(ground) = Ground::containerd() else { return };
    upheaval(ground);
}

#[test]
fn the_last_version_runs_alone_whatever_happened_before() {
    let Some(mut node) = Node::start() else { return };
    let (versions, seed) = (number(VERSIONS, 24), number(SEED, 1));
    let mut random = fastrand::Rng::with_seed(seed);
    let witness = witness::Witness::start(node.seconds(0));
    let write = |node: &Node, version| {
        let one = pods::Version { node: &node.seconds(0), slot: 0, version, image: "host" };
        node.write("web.yaml", &one.manifest());
    };
    let last = u32::try_from(versions).expect("not so many");
    for version in 1..=last {
        write(&node, version);
        // The pace varies, so that every stage of a pod's life is interrupted sooner or later.
        churn::pause(random.u64(..400));
        if random.u8(..4) == 0 {
            node.end_agent("-KILL");
            node.spawn_agent();
        }
        assert_eq!(witness.complaints(), Vec::<String>::new(), "seed {seed}");
    }
    node.until("the last version", || {
        let sightings = witness::look(&node.seconds(0));
        !sightings.is_empty() && sightings.iter().all(|seen| seen.version == last)
    });
    node.until_phase("pod-0", "Running");
    println!("{versions} versions, seed {seed}: {} looks", witness.looks());
    node.remove("web.yaml");
    node.until_gone("pod-0");
    node.until("a clean node", || {
        !node.path("data/pods").read_dir().is_ok_and(|mut left| left.next().is_some())
    });
    node.assert_clean();
    assert_eq!(witness.complaints(), Vec::<String>::new(), "seed {seed}");
}
