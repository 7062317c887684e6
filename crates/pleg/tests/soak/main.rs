//! Random histories of the played runtimes, with faults of their event streams, on paused time.
//!
//! A history is played twice: to a PLEG that follows the events, and to one that only lists. Whatever was dropped, doubled,
//! reordered, delayed, cut off or lost in a restart, both must end with the same: what is really there. `cargo xtask soak
//! pleg` plays more of them; a failure names its seed, and `RUBELET_SOAK_SEED` plays that one alone.

mod ends;
mod heard;
mod history;
mod node;
mod recorded;
mod run;
mod unannounced;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many histories each test plays, if nothing else is asked for.
const HISTORIES: u64 = 700;

/// Plays histories with the seeds that are asked for, on all processors or as many as `RUBELET_SOAK_THREADS` says; how many
/// it played, unless it was a certain one.
fn play(history: impl Fn(u64) + Sync) -> Option<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("RUBELET_SOAK_SEED") {
        history(seed);
        return None;
    }
    let count = number("RUBELET_SOAK_HISTORIES").unwrap_or(HISTORIES);
    let next = AtomicU64::new(0);
    let processors = || std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let threads = number("RUBELET_SOAK_THREADS").unwrap_or_else(processors).max(1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= count {
                        return;
                    }
                    history(seed);
                }
            });
        }
    });
    eprintln!("{count} histories");
    Some(count)
}

/// Runs one history on a clock of its own, which moves on when there is nothing else to do.
fn on_paused_time<T>(history: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(history)
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[test]
fn whatever_becomes_of_its_events_the_end_is_what_lists_alone_find() {
    play(|seed| on_paused_time(run::both_ways(history::History::new(seed))));
}

#[test]
fn a_recording_is_played_to_what_was_heard() {
    let whole = AtomicU64::new(0);
    let played = play(|seed| {
        if on_paused_time(recorded::and_played_again(history::History::new(seed))) {
            whole.fetch_add(1, Ordering::Relaxed);
        }
    });
    let whole = whole.into_inner();
    if let Some(played) = played {
        assert!(whole * 2 >= played, "only {whole} of {played} recordings were whole, and say anything");
    }
}

#[test]
fn what_was_not_announced_is_counted_to_the_last_one() {
    play(|seed| on_paused_time(unannounced::one_change_at_a_time(seed)));
}

#[test]
fn every_end_that_was_announced_is_told_with_its_exit_code() {
    play(|seed| on_paused_time(ends::in_bursts(seed)));
}
