//! Random histories of the whole agent, over a socket, on the synthetic runtime: calls that fail, hang, are late or lose
//! their answer, events that are lost, doubled or late, a runtime that restarts, an agent that is killed. Whatever happens,
//! never two live containers of one name in a pod, never a lost pod, and nothing left at the end.
//!
//! `RUBELET_HISTORIES` raises their number; a failure names its seed, and `RUBELET_HISTORY` plays that one alone. Time is
//! real, as sockets are, so a seed decides what is done and not exactly when.

mod agent;
mod history;
mod truth;

use tokio::task::JoinSet;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_of_a_name_and_never_a_lost_pod_on_the_synthetic_runtime() {
    let seeds: Vec<u64> = match number("RUBELET_HISTORY") {
        Some(seed) => vec![seed],
        None => (0..number("RUBELET_HISTORIES").unwrap_or(36)).collect(),
    };
    // They mostly wait, so many of them wait together.
    let mut under_way = JoinSet::new();
    for seed in seeds {
        if under_way.len() == 12
            && let Some(played) = under_way.join_next().await
        {
            played.expect("a history that ends well");
        }
        under_way.spawn(history::play(seed));
    }
    while let Some(played) = under_way.join_next().await {
        played.expect("a history that ends well");
    }
}
