//! What becomes of a recording if the disk is slow or full.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use super::super::files::Output;
use super::super::{Played, Recording, Replay};
use super::*;
use crate::announce::{Announcement, LifeStep};
use crate::clock::{Clock, Stamp};
use crate::core::Config;

/// A disk on which every write waits for permission, and may fail.
struct Disk {
    written: Arc<Mutex<Vec<u8>>>,
    leave: Receiver<io::Result<()>>,
}

impl Output for Disk {
    fn carry_out(&mut self, order: &Order) -> io::Result<()> {
        // Once nobody grants permission any more, everything is permitted.
        self.leave.recv().unwrap_or(Ok(()))?;
        let mut written = self.written.lock();
        match order {
            Order::Write(piece) => written.extend(piece),
            Order::NextFile { last, first } => written.extend(last.iter().chain(first)),
            Order::Anew(first) => written.clone_from(first),
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Scene {
    recorder: Recorder,
    core: Core,
    clock: Clock,
    written: Arc<Mutex<Vec<u8>>>,
    leave: Sender<io::Result<()>>,
}

impl Scene {
    fn new() -> Self {
        Self::within(None)
    }

    fn within(limits: Option<Limits>) -> Self {
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let (leave, given) = channel();
        let disk = Disk { written: written.clone(), leave: given };
        let sink = Sink::start(Path::new("/disk"), limits, disk);
        let core = Core::new(Config::default(), Stamp::from_nanos(1));
        Self {
            recorder: Recorder::new(sink, "a test".to_owned()),
            core,
            clock: Clock::start(),
            written,
            leave,
        }
    }

    fn note(&mut self, input: Input) -> Noted {
        let now = self.clock.now();
        let noted = self.recorder.note(&self.core, &input, now);
        let _effects = self.core.step(input, now);
        noted
    }

    /// Notes inputs until one is not taken, and returns how many were.
    fn fill(&mut self, input: impl Fn() -> Input) -> usize {
        let mut taken = 0;
        while self.note(input()) == Noted::Taken {
            taken += 1;
            assert!(taken < 10_000, "what waits is not bounded");
        }
        taken
    }
}

#[test]
fn a_slow_disk_makes_a_gap_that_the_recording_tells() {
    let mut scene = Scene::new();
    let taken = scene.fill(|| Input::Awaited);
    assert!(taken >= 200, "{taken} are no reason to leave anything out");
    for _ in 0..3 {
        assert_eq!(scene.note(Input::Awaited), Noted::LeftOut);
    }
    let (leave, _) = channel();
    drop(std::mem::replace(&mut scene.leave, leave));
    while scene.note(Input::Awaited) == Noted::LeftOut {
        std::thread::yield_now();
    }
    scene.recorder.finish().expect("written");

    let written = scene.written.lock().clone();
    let mut replay = Replay::new(Recording::open(&written[..]).expect("a recording"));
    let mut gaps = Vec::new();
    while let Some(played) = replay.next_while(|_| true).expect("it is whole") {
        match played {
            Played::Gap(inputs) => gaps.push(inputs),
            Played::Event(event) => panic!("nothing happened: {event:?}"),
        }
    }
    assert!(gaps.len() == 1 && gaps[0] >= 4, "the first that was not taken, and three more: {gaps:?}");
    let text = String::from_utf8(written).expect("a text");
    let entries: Vec<&str> = text.lines().map(|line| &line[9..line.len().min(16)]).collect();
    let gap = entries.iter().position(|entry| entry.starts_with("{\"gap")).expect("a gap");
    assert!(entries[gap + 1].starts_with("{\"state"), "what follows a gap starts anew: {entries:?}");
}

#[test]
fn what_waits_for_a_slow_disk_is_bounded_by_bytes_too() {
    let mut scene = Scene::new();
    let large = || {
        let announcement = Announcement {
            id: "x".repeat(1 << 20).into(),
            step: LifeStep::Started,
            pod: None,
            subject: None,
            exit: None,
            exited_at: None,
            announced_at: None,
        };
        Input::Announced { announcements: vec![announcement], at: Stamp::from_nanos(2) }
    };
    let taken = scene.fill(large);
    assert!((10..=20).contains(&taken), "{taken} MiB wait");
}

#[test]
fn a_full_disk_ends_the_recording_at_once_and_says_why() {
    let mut scene = Scene::new();
    let trouble = scene.recorder.trouble();
    scene.leave.send(Ok(())).expect("it waits");
    scene.leave.send(Err(io::ErrorKind::StorageFull.into())).expect("it waits");
    scene.note(Input::Awaited);
    while trouble.borrow().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(scene.note(Input::Awaited), Noted::Failed);
    let error = scene.recorder.finish().expect_err("it could not be written");
    assert_eq!(error.to_string(), "cannot write /disk: no storage space");
}

/// A disk is full for a while, and then somebody frees space: a recorder that runs for months must not have ended for
/// good.
#[test]
fn a_folder_that_cannot_be_written_is_tried_again_every_minute_and_tells_the_gap() {
    let mut scene = Scene::within(Some(Limits { folder: 1 << 20, file: 1 << 18 }));
    let trouble = scene.recorder.trouble();
    let full = || Err(io::ErrorKind::StorageFull.into());
    for leave in [Ok(()), full(), full(), Ok(())] {
        scene.leave.send(leave).expect("it waits");
    }
    let start = scene.clock.now();
    let note = |scene: &mut Scene, after| {
        let now = Now { stamp: start.stamp.plus(Duration::from_secs(after)), ..start };
        let noted = scene.recorder.note(&scene.core, &Input::Awaited, now);
        let _effects = scene.core.step(Input::Awaited, now);
        noted
    };
    let wait_for = |is_broken: bool, tries: usize, taken: &Scene| {
        while trouble.borrow().is_some() != is_broken || !taken.recorder.sink.is_idle() {
            std::thread::yield_now();
        }
        assert_eq!(is_broken, taken.recorder.hindrance().is_some(), "try {tries}");
    };
    assert_eq!(note(&mut scene, 0), Noted::Taken);
    wait_for(true, 1, &scene);
    let hindrance = scene.recorder.hindrance();
    assert_eq!(hindrance.as_deref(), Some("cannot write /disk: no storage space"));
    assert_eq!([1, 60].map(|after| note(&mut scene, after)), [Noted::LeftOut; 2]);
    assert_eq!(note(&mut scene, 61), Noted::Taken, "a minute after it was noticed");
    wait_for(true, 2, &scene);
    assert_eq!([62, 120].map(|after| note(&mut scene, after)), [Noted::LeftOut; 2]);
    assert_eq!(note(&mut scene, 121), Noted::Taken);
    wait_for(false, 3, &scene);
    let (leave, _) = channel();
    drop(std::mem::replace(&mut scene.leave, leave));
    assert_eq!(note(&mut scene, 122), Noted::Taken);
    scene.recorder.finish().expect("written");

    let written = scene.written.lock().clone();
    let mut replay = Replay::new(Recording::open(&written[..]).expect("a recording"));
    let played = replay.next_while(|_| true).expect("it is whole");
    assert!(matches!(played, Some(Played::Gap(5))), "the four, and that of the try in vain: {played:?}");
    assert!(replay.next_while(|_| true).expect("it is whole").is_none());
    assert_eq!(replay.now().map(|now| now.stamp), Some(start.stamp.plus(Duration::from_secs(122))));
}

/// Otherwise, recordings would be made that nobody can play.
#[test]
fn what_no_reader_would_read_is_not_written() {
    let mut scene = Scene::new();
    let (leave, _) = channel();
    drop(std::mem::replace(&mut scene.leave, leave));
    scene.recorder.longest_entry = 1_000;
    assert_eq!(scene.note(Input::Awaited), Noted::LeftOut, "the state is longer");
    assert!(scene.recorder.hindrance().is_some_and(|why| why.contains("no room for the state of 0 pods")));
    scene.recorder.too_large = None;
    scene.recorder.longest_entry = 10_000;
    assert_eq!(scene.note(Input::Awaited), Noted::Taken);
    let long = Input::Nudge { pod: "x".repeat(10_000).as_str().into(), at: Stamp::from_nanos(2) };
    assert_eq!(scene.note(long), Noted::LeftOut);
    assert_eq!(scene.note(Input::Awaited), Noted::Taken);
    scene.recorder.finish().expect("written");
    let text = String::from_utf8(scene.written.lock().clone()).expect("a text");
    assert_eq!(text.matches("{\"gap\":1}").count(), 2, "{text:.300}");
    assert!(text.lines().all(|line| line.len() < 10_000));
}

#[test]
fn in_a_small_folder_most_of_what_is_written_is_news() {
    let mut scene = Scene::within(Some(Limits { folder: 1 << 20, file: 16 }));
    let (leave, _) = channel();
    drop(std::mem::replace(&mut scene.leave, leave));
    for _ in 0..100 {
        assert_eq!(scene.note(Input::Awaited), Noted::Taken);
    }
    scene.recorder.finish().expect("written");
    let text = String::from_utf8(scene.written.lock().clone()).expect("a text");
    let of =
        |entry: &str| text.lines().filter(|line| line[9..].starts_with(entry)).map(str::len).sum::<usize>();
    let (states, inputs) = (of("{\"state"), of("{\"in\""));
    assert!(text.matches("rubeletRecording").count() > 1, "one file does not hold it: {text:.300}");
    assert!(
        inputs > 0 && states <= inputs + text.lines().map(str::len).max().unwrap_or(0),
        "{states} {inputs}"
    );
}

#[test]
fn a_state_that_does_not_fit_is_not_written_down_again_and_again() {
    let mut scene = Scene::within(Some(Limits { folder: 200, file: 50 }));
    let now = scene.clock.now();
    let mut tried = |after| {
        let now = Now { stamp: now.stamp.plus(Duration::from_secs(after)), ..now };
        assert_eq!(scene.recorder.note(&scene.core, &Input::Awaited, now), Noted::LeftOut);
        scene.recorder.too_large.map(|(since, _)| since == now.stamp)
    };
    assert_eq!([0, 1, 59, 60, 61].map(&mut tried), [true, false, false, true, false].map(Some));
}
