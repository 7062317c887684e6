//! Records the inputs of a core.

use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;

use super::entry::{Header, LastList, RULES, Recorded, VERSION, Writing};
use super::frame::{self, LONGEST_ENTRY};
use super::sink::{Limits, Order, RecordError, Sink};
use crate::clock::{Now, Stamp, wall_clock};
use crate::core::{Core, Input};

/// Space for the entry that ends a file.
const END: u64 = 64;

/// Records the inputs of one PLEG. Pass it to [`Pleg::record`](crate::Pleg::record).
///
/// Everything that was recorded is on disk once [`finish`](Self::finish) has returned, or soon after the recorder was
/// dropped. Only `finish` says whether everything could be written.
#[derive(Debug)]
pub struct Recorder {
    sink: Sink,
    about: String,
    last_list: LastList,
    /// Whether the core's state must be written before the next input.
    needs_state: bool,
    left_out: u64,
    /// The size of the current file, and how much of that are its header and state.
    size: u64,
    beginning: u64,
    /// When the state was found to be too large for the folder or for an entry, and how many pods it had.
    too_large: Option<(Stamp, usize)>,
    longest_entry: usize,
    /// When the folder was found to be unwritable, or was last tried in vain.
    broken: Option<Stamp>,
    /// How many inputs are lost if the latest attempt is in vain as well.
    at_stake: u64,
}

/// After how long to try again: whether a state that was too large now fits, unless the number of pods changes earlier,
/// or whether a folder has become writable.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is recorded, or soon will be.
    Taken,
    /// It is not recorded: the disk is too slow, or there is no space.
    LeftOut,
    /// Nothing is recorded any more.
    Failed,
}

impl Recorder {
    /// Records into a file, which must not exist yet. `about` describes what is recorded, for readers.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn to_file(path: &Path, about: impl Into<String>) -> Result<Self, RecordError> {
        Ok(Self::new(Sink::file(path)?, about.into()))
    }

    /// Records into a folder, and removes the oldest files in it so that it never exceeds `size` bytes.
    ///
    /// A recording begins with the state of the PLEG, which takes two or three kilobytes for each pod. If that alone is
    /// larger than `size`, nothing is recorded until it fits.
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
        // Nothing is waiting yet, so it is taken.
        recorder.sink.order(Order::Write(header));
        recorder
    }

    /// Watches why nothing can be recorded; `None` while recording works. Programs may prefer to exit when it does not.
    /// A recording into a single file never recovers; a folder is tried again every minute.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<RecordError>> {
        self.sink.trouble()
    }

    /// Returns why nothing is being recorded, if that is so.
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

    /// Notes that a file with this header has begun.
    fn has_begun(&mut self, header: &[u8]) {
        self.size = header.len() as u64;
        self.beginning = self.size;
        self.needs_state = true;
    }

    /// Records an input that `core` is about to get. The core waits while its state is serialised, so an input that
    /// cannot be recorded must not cost anything.
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
            // If it fails once more, that happens as of now.
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
        // Both of the entries that may be long must be ones that a reader accepts.
        let is_too_large = state > room.min(self.longest_entry);
        self.too_large = is_too_large.then(|| (now.stamp, core.pods()));
        if is_too_large || piece.len() > room || piece.len() - state > self.longest_entry {
            if self.left_out == 0 {
                let length = piece.len();
                let most = room.min(self.longest_entry);
                tracing::warn!(
                    "leaving an input of {length} bytes out of the recording: there is room for {most}"
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

    /// Whether it is too early to try to write anything.
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

    /// How many bytes may be written at once.
    fn room(&self) -> usize {
        let folder = self.sink.limits.map(|limits| limits.folder.saturating_sub(self.size + END));
        folder.map_or(usize::MAX, |folder| usize::try_from(folder).unwrap_or(usize::MAX))
    }

    /// Whether the next file should begin before `more` bytes are written. Unless the folder would become too large, a
    /// file is not full before the inputs after its state take as much space as the state does: however small the
    /// folder, most of what is written is news.
    fn is_full(&self, more: usize, limits: Limits) -> bool {
        let size = self.size + more as u64 + END;
        let is_begun = self.size > self.beginning;
        is_begun && (size > limits.file.max(2 * self.beginning) || size > limits.folder)
    }

    /// Ends this file and continues in the next one. Each file can be played on its own.
    fn next_file(&mut self) -> bool {
        let first = self.header();
        let is_begun = self.sink.order(Order::NextFile { last: end(), first: first.clone() });
        if is_begun {
            self.has_begun(&first);
        }
        is_begun
    }

    /// Returns an input as it is written, together with what must precede it, and the length of the latter.
    fn piece(&mut self, core: &Core, input: &Input, now: Now) -> (Vec<u8>, usize) {
        let mut piece = Vec::new();
        if self.needs_state {
            // The new state stands on its own: earlier lists are not known to its readers.
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

    /// Ends the recording, and waits until everything is written. This blocks: in async code, call it from
    /// `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// If not everything could be written.
    pub fn finish(mut self) -> Result<(), RecordError> {
        let last = self.last();
        self.sink.finish(last)
    }

    /// The entries that end the recording.
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
        // Without waiting: it may find no room, or have been finished, and both are fine.
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
