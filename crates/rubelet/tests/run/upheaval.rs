//! A manifest that changes all the time, and an agent that is killed all the time: never two of one name, never a lost
//! pod, and the last version at the end. The short form of the soak.

use crate::node::Node;

/// How many versions, and how many times the agent is killed meanwhile.
const VERSIONS: u32 = 24;
const KILL_EVERY: u32 = 4;

#[test]
fn the_last_version_runs_alone_whatever_happened_before() {
    let Some(mut node) = Node::start() else { return };
    for version in 1..=VERSIONS {
        node.write("web.yaml", &node.sleeping("web", version));
        // A different pace each time, so that every stage of a pod's life is interrupted sooner or later.
        let pause = std::time::Duration::from_millis(u64::from(version * 37 % 400));
        rubelet_testbed::wait::until(pause, || None::<()>);
        if version % KILL_EVERY == 0 {
            node.end_agent("-KILL");
            node.start_agent();
        }
        let alive: usize = (1..=version).map(|version| node.sleepers(version).len()).sum();
        assert!(alive <= 1, "{alive} versions run at once");
    }
    node.sleeper(VERSIONS);
    node.until_phase("web", "Running");
    let alive: Vec<u32> = (1..=VERSIONS).filter(|version| !node.sleepers(*version).is_empty()).collect();
    assert_eq!(alive, [VERSIONS]);
    node.remove("web.yaml");
    node.until_gone("web");
    node.until("a clean node", || {
        !node.path("data/pods").read_dir().is_ok_and(|mut left| left.next().is_some())
    });
    node.assert_clean();
}
