//! Writes down what a core is told.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::entry::{Header, LastList, RULES, Recorded, VERSION, Writing};
use super::frame::{self, LONGEST_ENTRY};
use super::sink::{Limits, Order, RecordError, Sink};
use crate::clock::{Now, Stamp, wall_clock};
use crate::core::{Core, Input};

/// Room for the entry that ends a file.
const END: u64 = 64;

/// Records one PLEG. Give it to [`Pleg::record`](crate::Pleg::record).
///
/// What it has been given is on disk when [`finish`](Self::finish) has returned, or soon after it is dropped. Only
/// `finish` tells whether all of it could be written.
#[derive(Debug)]
pub struct Recorder {
    sink: Sink,
    about: String,
    last_list: LastList,
    /// Whether the next entry must be preceded by the core's state.
    needs_state: bool,
    left_out: u64,
    /// How much is in the current file, and how much of that is its header and the state.
    size: u64,
    beginning: u64,
    /// When the state was larger than the folder or an entry may be, and of how many pods it was.
    too_large: Option<(Stamp, usize)>,
    longest_entry: usize,
    /// When it was found, or last tried in vain, that the folder cannot be written.
    broken: Option<Stamp>,
    /// How many inputs are left out if the last try is in vain, too.
    at_stake: u64,
}

/// A state that was too large is written down again to see whether it fits by now after so long, or when there are more or fewer
/// pods; and so is one to a folder that could not be written.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is recorded, or soon will be.
    Taken,
    /// It is not: the disk is too slow, or there is no room for it.
    LeftOut,
    /// Nothing is recorded any more.
    Failed,
}

impl Recorder {
    /// Records into a file, which must not be there yet. `about` says what is recorded, for whoever reads it.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn to_file(path: &Path, about: impl Into<String>) -> Result<Self, RecordError> {
        Ok(Self::new(Sink::file(path)?, about.into()))
    }

    /// Records into a folder, and removes the oldest there before it becomes larger than `size` bytes.
    ///
    /// A recording begins with the state of the PLEG, two or three kilobytes a pod. If that alone is larger than `size`,
    /// nothing is recorded until it fits.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn to_folder(folder: &Path, size: u64, about: impl Into<String>) -> Result<Self, RecordError> {
        Ok(Self::new(Sink::ring(folder, size)?, about.into()))
    }

    pub(super) fn new(sink: Sink, about: String) -> Self {
        let mut recorder = Self {
            sink,
            about,
            last_list: LastList::default(),
            needs_state: true,
            left_out: 0,
            size: 0,
            beginning: 0,
            too_large: None,
            longest_entry: LONGEST_ENTRY,
            broken: None,
            at_stake: 0,
        };
        let header = recorder.header();
        recorder.has_begun(&header);
        // Nothing waits yet, so it is taken.
        recorder.sink.order(Order::Write(header));
        recorder
    }

    /// Why nothing can be recorded, as long as that is so: for those who would rather end. One file never comes back; a folder is
    /// tried again every minute.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<RecordError>> {
        self.sink.trouble()
    }

    /// Why nothing is recorded at present, if nothing is.
    pub(crate) fn hindrance(&self) -> Option<String> {
        let trouble = self.sink.trouble().borrow().as_ref().map(ToString::to_string);
        trouble.or_else(|| {
            let (_, pods) = self.too_large?;
            Some(format!("{}: there is no room for the state of {pods} pods", self.sink.path().display()))
        })
    }

    fn header(&self) -> Vec<u8> {
        let (began_at, about) = (wall_clock(), self.about.clone());
        let header = Header { rubelet_recording: VERSION, rules: RULES, began_at, about };
        let mut line = Vec::new();
        frame::write(&mut line, &header);
        line
    }

    /// A file with this header has begun.
    fn has_begun(&mut self, header: &[u8]) {
        self.size = header.len() as u64;
        self.beginning = self.size;
        self.needs_state = true;
    }

    /// Takes down what `core` is about to be told. Where that is not possible it costs nothing, either: the core waits
    /// while its state is written down.
    pub(crate) fn note(&mut self, core: &Core, input: &Input, now: Now) -> Noted {
        if self.sink.has_failed() {
            self.last_list = LastList::default();
            return Noted::Failed;
        }
        if !self.sink.has_room() || self.waits(core, now.stamp) {
            return self.leave_out();
        }
        let header = self.broken.take().map(|_| self.header());
        if let Some(header) = &header {
            // Should it fail once more, that is noticed as of now.
            self.broken = Some(now.stamp);
            self.at_stake = self.left_out + 1;
            self.has_begun(header);
        }
        let (mut piece, mut state) = self.piece(core, input, now);
        if let Some(limits) = self.sink.limits
            && self.is_full(piece.len(), limits)
            && self.next_file()
        {
            (piece, state) = self.piece(core, input, now);
        }
        let room = self.room();
        // Of the two entries that may be long, each must be one that will be read again.
        let is_too_large = state > room.min(self.longest_entry);
        self.too_large = is_too_large.then(|| (now.stamp, core.pods()));
        if is_too_large || piece.len() > room || piece.len() - state > self.longest_entry {
            if self.left_out == 0 {
                let length = piece.len();
                let most = room.min(self.longest_entry);
                tracing::warn!(
                    "what is to be recorded takes {length} bytes, and there is room for {most}: it is left out"
                );
            }
            return self.leave_out();
        }
        let length = piece.len() as u64;
        let order = match header {
            Some(mut first) => {
                first.append(&mut piece);
                Order::Anew(first)
            }
            None => Order::Write(piece),
        };
        if !self.sink.order(order) {
            return self.leave_out();
        }
        self.needs_state = false;
        if self.size == self.beginning {
            self.beginning += state as u64;
        }
        self.left_out = 0;
        self.size += length;
        Noted::Taken
    }

    /// Whether there is no point in trying to write anything yet.
    fn waits(&mut self, core: &Core, now: Stamp) -> bool {
        let is_recent = |since: Stamp| since.until(now) < TRIED_AGAIN_AFTER;
        let is_idle = self.sink.is_idle();
        if !self.sink.is_broken() {
            (self.broken, self.at_stake) = (None, 0);
        } else {
            self.broken.get_or_insert(now);
            if is_idle {
                self.left_out += std::mem::take(&mut self.at_stake);
            }
        }
        let is_too_large = |(since, pods)| core.pods() == pods && is_recent(since);
        self.broken.is_some_and(is_recent) || self.too_large.is_some_and(is_too_large)
    }

    /// How much may be written at once.
    fn room(&self) -> usize {
        let folder = self.sink.limits.map(|limits| limits.folder.saturating_sub(self.size + END));
        folder.map_or(usize::MAX, |folder| usize::try_from(folder).unwrap_or(usize::MAX))
    }

    /// Whether the next file should begin before so much more is written. A file is never full before as much has followed
    /// its state as that takes: however small the folder, most of what is written is news.
    fn is_full(&self, more: usize, limits: Limits) -> bool {
        let size = self.size + more as u64 + END;
        let is_begun = self.size > self.beginning;
        is_begun && (size > limits.file.max(2 * self.beginning) || size > limits.folder)
    }

    /// Ends this file and goes on in the next. Each can be played on its own.
    fn next_file(&mut self) -> bool {
        let first = self.header();
        let is_begun = self.sink.order(Order::NextFile { last: end(), first: first.clone() });
        if is_begun {
            self.has_begun(&first);
        }
        is_begun
    }

    /// An input as it is written, with what must stand before it, and how long that is.
    fn piece(&mut self, core: &Core, input: &Input, now: Now) -> (Vec<u8>, usize) {
        let mut piece = Vec::new();
        if self.needs_state {
            // It starts anew: nothing is known of lists before.
            self.last_list = LastList::default();
            if self.left_out > 0 {
                frame::write(&mut piece, &Writing::Gap(self.left_out));
            }
            frame::write(&mut piece, &Writing::State(core));
        }
        let state = piece.len();
        let recorded = match input {
            Input::Listed { asked, answer } => Recorded::Listed {
                asked: *asked,
                answer: answer
                    .as_ref()
                    .map(|listing| self.last_list.difference(listing))
                    .map_err(Clone::clone),
            },
            other => Recorded::Other(other),
        };
        frame::write(&mut piece, &Writing::Input(now, recorded));
        (piece, state)
    }

    fn leave_out(&mut self) -> Noted {
        self.needs_state = true;
        self.left_out += 1;
        Noted::LeftOut
    }

    /// Ends the recording, and waits until it is written. This blocks: in a program that has other things to do, call it
    /// from `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// If it could not all be written.
    pub fn finish(mut self) -> Result<(), RecordError> {
        let last = self.last();
        self.sink.finish(last)
    }

    /// What ends the recording.
    fn last(&self) -> Vec<u8> {
        let mut last = Vec::new();
        if self.left_out > 0 {
            frame::write(&mut last, &Writing::Gap(self.left_out));
        }
        last.extend(end());
        last
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Without waiting: if it finds no room, or was finished, so be it.
        self.sink.order(Order::Write(self.last()));
    }
}

fn end() -> Vec<u8> {
    let mut line = Vec::new();
    frame::write(&mut line, &Writing::End);
    line
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
