//! Recordings that were made by earlier versions. Every later one must play them to the same events.
//!
//! `version-1.recording`: a synthetic containerd 2 with two pods, whose status calls fail every now and then, and a
//! container that exits with 42. The events beside it are what was heard when it was made.

use std::path::Path;

use pleg::record::{Played, Recording, Replay};

fn events(recording: &str) -> String {
    let bytes = std::fs::read(fixture(recording)).expect("a fixture");
    let mut replay = Replay::new(Recording::open(&bytes[..]).expect("a recording"));
    let mut lines = String::new();
    while let Some(played) = replay.next_while(|_| true).expect("it is whole") {
        let Played::Event(event) = played else { panic!("nothing was left out") };
        lines += &serde_json::to_string(&event).expect("an event");
        lines.push('\n');
    }
    lines
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn recordings_of_the_first_version() {
    let wanted = std::fs::read_to_string(fixture("version-1.events")).expect("a fixture");
    assert_eq!(events("version-1.recording"), wanted);
    assert_eq!(events("version-1.recording"), wanted, "and once more");
}
