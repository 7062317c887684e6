//! Recordings of random histories yield the same events when they are played.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::*;
use crate::record::{Damage, Played, Recorder, Recording, Replay};

/// Plays a history, with a recorder.
fn record(history: &[Op], recorder: Recorder) -> Run {
    let mut run = Run::new();
    run.pleg.recorder = Some(recorder);
    run.pleg.tick();
    for op in history {
        run.apply(op);
    }
    let recorder = run.pleg.recorder.take().expect("it is still there");
    recorder.finish().expect("written");
    run.heard.retain(|event| event.kind.is_delivered());
    run
}

fn replay(path: &Path) -> Result<Vec<PodEvent>, Damage> {
    let file = BufReader::new(File::open(path).expect("a recording"));
    let mut replay = Replay::new(Recording::open(file)?);
    let mut events = Vec::new();
    while let Some(played) = replay.next_while(|_| true)? {
        match played {
            Played::Event(event) => events.push(event),
            Played::Gap(_) => panic!("nothing was left out"),
        }
    }
    Ok(events)
}

/// So small that histories fill it several times over, and large enough for the state at any moment of them.
const FOLDER: u64 = 40_000;

/// A folder that is too small for the state does not become larger than it may, and what fits is recorded.
#[test]
fn a_folder_that_is_too_small_stays_within_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = [Op::Create { pod: 0, state: ContainerState::Running, code: 7 }, Op::AnswerList];
    record(&history, Recorder::to_folder(folder.path(), 500, "a test").expect("a folder"));
    let files = folder.path().read_dir().expect("a folder");
    let size: u64 = files.map(|file| file.expect("a file").metadata().expect("it is there").len()).sum();
    assert!((1..=500).contains(&size), "{size} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 20, ..Default::default() })]

    #[test]
    fn a_recording_gives_the_same_events(history in history()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r");
        let run = record(&history, Recorder::to_file(&path, "a test").expect("a file"));
        prop_assert_eq!(replay(&path).expect("whole"), run.heard);
    }

    /// Each file of a folder starts with a copy of the state and yields the events from there on. Together, the files
    /// are no larger than allowed.
    #[test]
    fn every_file_of_a_folder_gives_its_part(history in history()) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = record(&history, Recorder::to_folder(folder.path(), FOLDER, "a test").expect("a folder"));
        let mut files: Vec<PathBuf> =
            folder.path().read_dir().expect("a folder").map(|file| file.expect("a file").path()).collect();
        files.sort();
        let size: u64 = files.iter().map(|file| file.metadata().expect("it is there").len()).sum();
        prop_assert!(size <= FOLDER, "{size} bytes");
        let mut played = Vec::new();
        for file in files {
            played.append(&mut replay(&file).expect("each is whole"));
        }
        prop_assert!(run.heard.ends_with(&played), "{:?} is not the end of {:?}", played, run.heard);
    }
}

fn replay_what_is_there(path: &Path) -> Vec<PodEvent> {
    let file = BufReader::new(File::open(path).expect("a recording"));
    let mut replay = Replay::new(Recording::open(file).expect("it begins well"));
    let mut events = Vec::new();
    while let Ok(Some(Played::Event(event))) = replay.next_while(|_| true) {
        events.push(event);
    }
    events
}

#[test]
fn a_damaged_recording_is_played_up_to_the_damage() {
    let history = [
        Op::Create { pod: 0, state: ContainerState::Running, code: 7 },
        Op::AnswerList,
        Op::Inspect { which: 0, fails: false, is_quick: true },
        Op::Change { pod: 0, which: 0, state: ContainerState::Exited, code: 7 },
        Op::Pass { millis: 1_500 },
        Op::AnswerList,
        Op::Inspect { which: 0, fails: false, is_quick: true },
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r");
    let run = record(&history, Recorder::to_file(&path, "a test").expect("a file"));
    assert_eq!(run.heard.len(), 2);
    let whole = std::fs::read(&path).expect("read");
    let starts: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();

    let mut cut = whole.clone();
    cut.truncate(whole.len() - 20);
    std::fs::write(&path, &cut).expect("written");
    let damage = replay(&path).unwrap_err();
    let last = starts[starts.len() - 3] as u64;
    assert!(
        damage == Damage::CutOff { offset: last }
            || damage == Damage::CutOff { offset: starts[starts.len() - 2] as u64 },
        "{damage}"
    );

    let entry = starts[starts.len() - 4];
    let mut damaged = whole.clone();
    damaged[entry + 30] ^= 4;
    std::fs::write(&path, &damaged).expect("written");
    assert_eq!(replay(&path).unwrap_err(), Damage::Damaged { offset: entry as u64 });
    assert_eq!(replay_what_is_there(&path), run.heard[..1]);

    std::fs::write(&path, whole.repeat(2)).expect("written");
    assert_eq!(replay(&path).unwrap_err(), Damage::MoreFollows { offset: whole.len() as u64 });
    assert_eq!(replay_what_is_there(&path), run.heard);

    for (nonsense, said) in
        [("", "it is empty"), ("hello\n", "it does not begin as one"), ("hello", "it does not begin as one")]
    {
        std::fs::write(&path, nonsense).expect("written");
        assert_eq!(replay(&path).unwrap_err(), Damage::NotARecording(said));
    }
}

/// Wherever the recording is cut, and whichever byte is changed: the place is reported, and what comes before it is
/// played.
#[test]
fn no_damage_goes_unnoticed_or_is_played() {
    let bytes = std::fs::read(fixture()).expect("a fixture");
    let (whole, all) = play(&bytes);
    assert_eq!((whole, all.is_empty()), (None, false));
    let starts: Vec<usize> = std::iter::once(0)
        .chain(bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1))
        .collect();
    // Where the entry begins that contains this byte or ends at it.
    let entry = |at: usize| *starts.iter().rev().find(|start| **start <= at).expect("the first is 0") as u64;
    let check = |damaged: &[u8], at: usize| {
        let (damage, played) = play(damaged);
        let told = match damage.unwrap_or_else(|| panic!("byte {at} is damaged, and nobody says so")) {
            Damage::CutOff { offset } | Damage::Damaged { offset } | Damage::MoreFollows { offset } => offset,
            Damage::NotARecording(_) => 0,
            other => panic!("byte {at}: {other}"),
        };
        assert_eq!(told, entry(at), "byte {at}");
        assert!(all.starts_with(&played), "byte {at}: {played:?}");
    };
    for at in (0..bytes.len()).step_by(7) {
        check(&bytes[..at], at);
        let mut flipped = bytes.clone();
        for change in [1, 0x20, 0x80] {
            flipped[at] = bytes[at] ^ change;
            check(&flipped, at);
        }
    }
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1.recording")
}

/// Plays a recording. Returns its events, and the damage that ends it, if any.
fn play(mut bytes: &[u8]) -> (Option<Damage>, Vec<PodEvent>) {
    let mut events = Vec::new();
    let mut replay = match Recording::open(&mut bytes) {
        Ok(recording) => Replay::new(recording),
        Err(damage) => return (Some(damage), events),
    };
    loop {
        match replay.next_while(|_| true) {
            Ok(Some(Played::Event(event))) => events.push(event),
            Ok(Some(Played::Gap(_))) => {}
            Ok(None) => return (None, events),
            Err(damage) => return (Some(damage), events),
        }
    }
}

#[test]
fn a_recording_of_a_later_version_is_refused_by_its_version() {
    for rest in [r#","rules":9,"beganAt":1,"about":"x""#, r#","another":"shape""#] {
        let entry = format!(r#"{{"rubeletRecording":99999999999{rest}}}"#);
        let line = format!("{:08x} {entry}\n", crc32fast::hash(entry.as_bytes()));
        assert_eq!(play(line.as_bytes()).0, Some(Damage::Newer { found: 99_999_999_999 }));
    }
}

/// Such as `/dev/zero` or the image of a disk.
#[test]
fn a_file_without_lines_is_not_read_to_its_end() {
    let mut zeros = BufReader::new(std::io::repeat(0));
    assert!(matches!(Recording::open(&mut zeros), Err(Damage::NotARecording(_))));
}
