//! A history that is recorded while a whole PLEG follows it: played again, it gives the events that a subscriber heard, byte
//! for byte.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pleg::record::{Played, Recorder, Recording, Replay};
use pleg::{Config, Metrics, Pleg, PodEvent};

use crate::history::History;
use crate::node::Node;
use crate::pass;
use crate::run::patience;

/// Whether nothing was left out of the recording: only then all of it could be compared.
pub(crate) async fn and_played_again(history: History) -> bool {
    let context = format!("seed {}, {}", history.seed, history.profile);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording");
    let node = Node::new(history.profile, history.seed, history.clock);
    let mut config = Config::default();
    config.start_patience = patience(history.seed);
    let mut pleg = Pleg::new(node.clone(), config, Metrics::default());
    pleg.record(Some(Recorder::to_file(&path, "a history").expect("a file")));
    let heard = Arc::<Mutex<Vec<Arc<PodEvent>>>>::default();
    let mut events = pleg.handle().subscribe();
    tokio::spawn({
        let heard = heard.clone();
        async move {
            while let Some(event) = events.next().await {
                heard.lock().push(event);
            }
        }
    });
    pleg.start();
    history.play(&node.runtime).await;
    pass(config.longest_period + Duration::from_secs(10)).await;
    pleg.stop().await;
    pleg.record(None).expect("it is still there").finish().expect("written");

    let mut replay = Replay::new(
        Recording::open(BufReader::new(std::fs::File::open(&path).expect("a file"))).expect("a recording"),
    );
    let (mut played, mut is_whole) = (Vec::new(), true);
    while let Some(next) = replay.next_while(|_| true).unwrap_or_else(|damage| panic!("{context}: {damage}"))
    {
        match next {
            Played::Event(event) => played.push(event),
            // Time is paused, and the disk's is not.
            Played::Gap(_) => is_whole = false,
        }
    }
    let text = |event: &PodEvent| serde_json::to_string(event).expect("an event");
    let heard = heard.lock();
    for event in heard.iter().filter(|event| event.merged == 1) {
        match played.iter().find(|played| played.seq == event.seq) {
            Some(played) => assert_eq!(text(played), text(event), "{context}"),
            None => assert!(!is_whole, "{context}: {event:?} is not played"),
        }
    }
    let merged: u64 = heard.iter().map(|event| event.merged).sum();
    if is_whole {
        assert_eq!(played.len() as u64, merged, "{context}: as many as were heard");
        assert!(played.is_sorted_by_key(|event| event.seq), "{context}: in order");
    }
    is_whole
}
