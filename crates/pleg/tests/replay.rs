//! Recordings that were made by earlier versions. Every later one must play them to the same events.
//!
//! Beside each stands what was heard when it was made:
//!
//! - `version-1`: a synthetic containerd 2 with two pods, whose status calls fail every now and then, and a container that
//!   exits with 42;
//! - `version-1-ring`: a file from the middle of a folder, of a run with faults. It begins with a state in which pods hang,
//!   fail and wait for their turn, looks and second looks are due, ends have been told and announcements are open;
//! - `version-1-gap`: inputs are missing, and the runtime restarts twice: once what is gone from its first list is there
//!   in the second, and once it is not;
//! - `version-1-rules-2`: begins with a state in which ends are doubted, waited for and incomplete, and what was found of a
//!   pod is withheld;
//! - `version-1-rules-3`: begins with a state in which an inspection is under way that began too soon to be a second look, and
//!   in which what was found of two pods is withheld; a second look is due while an inspection is under way, and one of the pods
//!   cannot be inspected any more;
//! - `version-1-rules-4`: begins with a state in which a look was given up and another one hangs, two ends of a pod are incomplete,
//!   and a pod is gone and waited for. It comes back and goes again, the ends are corrected, and something lives between the
//!   opening of a stream and the first list.

use std::path::Path;

use pleg::record::{Played, Recording, Replay};

fn events(recording: &str) -> String {
    let bytes = std::fs::read(fixture(recording)).expect("a fixture");
    let mut replay = Replay::new(Recording::open(&bytes[..]).expect("a recording"));
    let mut lines = String::new();
    while let Some(played) = replay.next_while(|_| true).expect("it is whole") {
        match played {
            Played::Event(event) => lines += &serde_json::to_string(&event).expect("an event"),
            Played::Gap(inputs) => lines += &format!("{inputs} inputs are missing"),
        }
        lines.push('\n');
    }
    assert_eq!(replay.lost_answers(), 0, "{recording}");
    lines
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn recordings_of_the_first_version() {
    for name in [
        "version-1",
        "version-1-ring",
        "version-1-gap",
        "version-1-rules-2",
        "version-1-rules-3",
        "version-1-rules-4",
    ] {
        let wanted = std::fs::read_to_string(fixture(&format!("{name}.events"))).expect("a fixture");
        let recording = format!("{name}.recording");
        assert_eq!(events(&recording), wanted, "{name}");
        assert_eq!(events(&recording), wanted, "{name}, and once more");
    }
}
