//! One history, played to a PLEG that follows events, and to one that only lists.

use std::collections::BTreeMap;
use std::time::Duration;

use pleg::{CacheReader, Config, Metrics, Pleg};
use rubelet_model::{PodStatus, PodUid, SandboxState};

use crate::heard::Heard;
use crate::history::History;
use crate::node::Node;
use crate::pass;

pub(crate) async fn both_ways(history: History) {
    let context = format!("seed {}, {}", history.seed, history.profile);
    let listing = observe(&history, false, &format!("{context}, lists alone")).await;
    let following = observe(&history, true, &format!("{context}, with events")).await;
    assert_eq!(following, listing, "{context}: the two end alike");
}

/// Some wait before they look at what started, a little or longer.
pub(crate) fn patience(seed: u64) -> Duration {
    Duration::from_millis(match seed / 3 % 3 {
        0 => 0,
        1 => 20,
        _ => 5_000,
    })
}

/// Returns what the cache holds in the end, after it has been held against the truth.
async fn observe(
    history: &History,
    follow_events: bool,
    context: &str,
) -> BTreeMap<PodUid, (Vec<rubelet_model::SandboxStatus>, Vec<rubelet_model::ContainerStatus>)> {
    let node = Node::new(history.profile, history.seed, history.clock);
    let mut config = Config::default();
    config.follow_events = follow_events;
    config.start_patience = patience(history.seed);
    let mut pleg = Pleg::new(node.clone(), config, Metrics::default());
    let handle = pleg.handle();
    let heard = Heard::by_subscribing(&handle);
    pleg.start();
    history.play(&node.runtime).await;

    // One list more than the longest period away, a second look at doubtful ends, and whatever follows from those.
    let longest = if follow_events { config.longest_period } else { config.relist_period };
    pass(longest + Duration::from_secs(10)).await;
    if history.has_silent_changes {
        for (pod, _) in handle.cache().all() {
            handle.reinspect(&pod);
        }
        pass(Duration::from_secs(5)).await;
    }

    let truth = node.truth();
    let facts = |status: &PodStatus| (status.sandboxes.clone(), status.containers.clone());
    let cached: BTreeMap<_, _> = handle
        .cache()
        .all()
        .into_iter()
        .map(|(pod, status)| {
            let status = status.unwrap_or_else(|error| panic!("{context}: {pod}: {error}"));
            (pod, facts(&status))
        })
        .collect();
    let there: BTreeMap<_, _> = truth.iter().map(|status| (status.pod.uid.clone(), facts(status))).collect();
    assert_eq!(cached, there, "{context}: the cache holds what is there");
    assert_addresses(&node, &truth, &handle.cache(), context);
    let heard = heard.lock();
    heard.assert_is(&truth, context);
    heard.assert_facts_are_told_once_and_in_order(history.has_returns, context);
    assert!(handle.health().healthy, "{context}: {}", handle.health());
    cached
}

/// A pod has the addresses of its sandbox; one that has none in use any more keeps those that were told before.
fn assert_addresses(node: &Node, truth: &[PodStatus], cache: &CacheReader, context: &str) {
    for there in truth {
        let uid = &there.pod.uid;
        let cached = cache.get(uid).expect("it was compared").ips.clone();
        let has_ready = there.sandboxes.iter().any(|sandbox| sandbox.state == SandboxState::Ready);
        if has_ready || !there.ips.is_empty() {
            assert_eq!(cached, there.ips, "{context}: the addresses of {}", there.pod);
        } else {
            assert!(
                cached.is_empty() || node.has_told(uid, &cached),
                "{context}: {cached:?} of {}",
                there.pod
            );
        }
    }
}
