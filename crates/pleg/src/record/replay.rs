//! Plays recordings.

use std::io::BufRead;

use super::entry::{LastList, RULES, Read, Recorded};
use super::reader::{Damage, Recording};
use crate::clock::{Now, Stamp};
use crate::core::{Core, Effect, Input, News};
use crate::event::PodEvent;
use crate::health::Health;

/// What playing a recording yields.
#[derive(Debug)]
pub enum Played {
    /// An event that subscribers received.
    Event(PodEvent),
    /// This many inputs were not recorded here. What comes after this does not follow from what came before.
    Gap(u64),
}

/// A recording that is being played.
#[derive(Debug)]
pub struct Replay<R> {
    recording: Recording<R>,
    core: Option<Box<Core>>,
    last_list: LastList,
    now: Option<Now>,
    /// What has been played and has not been returned yet, last first.
    played: Vec<Played>,
    /// An input that has been read but was not wanted yet.
    ahead: Option<(Now, Input)>,
    lost_answers: u64,
}

impl<R: BufRead> Replay<R> {
    /// Starts to play a recording from its beginning.
    pub fn new(recording: Recording<R>) -> Self {
        Self {
            recording,
            core: None,
            last_list: LastList::default(),
            now: None,
            played: Vec::new(),
            ahead: None,
            lost_answers: 0,
        }
    }

    /// The header of the recording.
    #[must_use]
    pub fn header(&self) -> &super::Header {
        self.recording.header()
    }

    /// The moment of the last input that was played.
    #[must_use]
    pub fn now(&self) -> Option<Now> {
        self.now
    }

    /// Plays on, and returns the next event or gap. Inputs are played only while `is_wanted` holds for their moment.
    /// `None` at the end of the recording, or if the next input is not wanted: see [`has_more`](Self::has_more).
    ///
    /// # Errors
    ///
    /// Where the recording is damaged. Everything before that has been played.
    pub fn next_while(&mut self, is_wanted: impl Fn(Now) -> bool) -> Result<Option<Played>, Damage> {
        loop {
            if let Some(played) = self.played.pop() {
                return Ok(Some(played));
            }
            if self.ahead.is_none() {
                match self.recording.next()? {
                    None => return Ok(None),
                    Some(Read::End) => {}
                    Some(Read::State(mut core)) => {
                        core.tell_by(self.recording.header().rules);
                        self.core = Some(core);
                        self.last_list = LastList::default();
                    }
                    Some(Read::Gap(inputs)) => self.played.push(Played::Gap(inputs)),
                    Some(Read::Input(now, recorded)) => self.ahead = Some((now, self.input(recorded))),
                }
            }
            if let Some((now, input)) = self.ahead.take_if(|(now, _)| is_wanted(*now)) {
                self.play(now, input);
            } else if self.ahead.is_some() {
                return Ok(None);
            }
        }
    }

    fn input(&mut self, recorded: Recorded<Box<Input>>) -> Input {
        match recorded {
            Recorded::Listed { asked, answer } => {
                Input::Listed { asked, answer: answer.map(|difference| self.last_list.listing(difference)) }
            }
            Recorded::Other(input) => *input,
        }
    }

    fn play(&mut self, now: Now, mut input: Input) {
        self.now = Some(now);
        let Some(core) = &mut self.core else { return };
        // With the same rules, every answer finds its request, and one that came too late finds none, as when it was
        // recorded.
        if self.recording.header().rules != RULES && !core.fit(&mut input) {
            self.lost_answers += 1;
        }
        let told = core.step(input, now).into_iter().filter_map(|effect| match effect {
            Effect::Publish(News::Tell(event)) if event.kind.is_delivered() => Some(Played::Event(event)),
            _ => None,
        });
        self.played = told.collect();
        self.played.reverse();
    }

    /// How many answers so far had no open request, in a recording made with other rules: this version did not ask.
    /// What they said, and the events that follow from it, may be missing.
    #[must_use]
    pub fn lost_answers(&self) -> u64 {
        self.lost_answers
    }

    /// Whether there is more to play, which was not wanted yet.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.ahead.is_some()
    }

    /// Returns the health of the PLEG at a moment after the last input that was played. Calls in progress are not
    /// recorded, so they are missing from it. `None` before the first state.
    #[must_use]
    pub fn health(&self, at: Stamp) -> Option<Health> {
        Some(self.core.as_ref()?.health(&[], at))
    }
}
