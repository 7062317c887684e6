//! Writes down what a core is told.

use std::path::Path;

use super::entry::{Entry, Header, LastList, Plain, Recorded, State, VERSION};
use super::frame;
use super::sink::{RecordError, Sink};
use crate::clock::{Now, wall_clock};
use crate::core::{Core, Input};

/// Room for the entry that ends a recording.
const END: u64 = 64;

/// Records one PLEG. Give it to [`Pleg::record`](crate::Pleg::record).
///
/// What it has been given is on disk when [`finish`](Self::finish) has returned, or soon after it is dropped.
#[derive(Debug)]
pub struct Recorder {
    sink: Sink,
    about: String,
    last_list: LastList,
    /// Whether the next entry must be preceded by the core's state.
    needs_state: bool,
    left_out: u64,
    /// How much is in the current file, and how much of that is its header.
    size: u64,
    header: u64,
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
    /// A recording begins with the state of the PLEG, a few hundred bytes a pod. If that alone is larger than `size`,
    /// nothing is recorded until it fits.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn to_folder(folder: &Path, size: u64, about: impl Into<String>) -> Result<Self, RecordError> {
        Ok(Self::new(Sink::ring(folder, size)?, about.into()))
    }

    fn new(sink: Sink, about: String) -> Self {
        let mut recorder = Self {
            sink,
            about,
            last_list: LastList::default(),
            needs_state: true,
            left_out: 0,
            size: 0,
            header: 0,
        };
        recorder.begin_file();
        recorder
    }

    fn begin_file(&mut self) {
        let header = Header { rubelet_recording: VERSION, began_at: wall_clock(), about: self.about.clone() };
        let mut line = Vec::new();
        frame::write(&mut line, &header);
        self.header = line.len() as u64;
        self.size = self.header;
        self.needs_state = true;
        self.sink.write(line);
    }

    /// Takes down what `core` is about to be told.
    pub(crate) fn note(&mut self, core: &Core, input: &Input, now: Now) {
        let mut piece = self.piece(core, input, now);
        if let Some(limits) = self.sink.limits {
            let is_full = self.size > self.header && self.size + piece.len() as u64 > limits.file;
            if is_full && self.sink.next_file() {
                self.begin_file();
                piece = self.piece(core, input, now);
            }
            if self.size + piece.len() as u64 + END > limits.folder {
                self.leave_out(limits.folder, piece.len());
                return;
            }
        }
        let length = piece.len() as u64;
        if self.sink.write(piece) {
            self.needs_state = false;
            self.left_out = 0;
            self.size += length;
        } else {
            self.needs_state = true;
            self.left_out += 1;
        }
    }

    /// An input as it is written, with what must stand before it.
    fn piece(&mut self, core: &Core, input: &Input, now: Now) -> Vec<u8> {
        let mut piece = Vec::new();
        if self.needs_state {
            // It starts anew: nothing is known of lists before.
            self.last_list = LastList::default();
            if self.left_out > 0 {
                frame::write(&mut piece, &Entry::Gap(self.left_out));
            }
            frame::write(&mut piece, &Entry::State(State::Lent(core)));
        }
        let recorded = match input {
            Input::Listed { asked, answer } => Recorded::Listed {
                asked: *asked,
                answer: answer.as_ref().map(|listing| self.last_list.news(listing)).map_err(Clone::clone),
            },
            other => Recorded::Other(Plain::Lent(other)),
        };
        frame::write(&mut piece, &Entry::Input(now, recorded));
        piece
    }

    fn leave_out(&mut self, limit: u64, length: usize) {
        if self.left_out == 0 {
            tracing::warn!(
                "the recording may take {limit} bytes, and what is to be recorded takes {length}: it is left out"
            );
        }
        self.needs_state = true;
        self.left_out += 1;
    }

    /// Ends the recording, and waits until it is written.
    ///
    /// # Errors
    ///
    /// If it could not all be written.
    pub fn finish(mut self) -> Result<(), RecordError> {
        let mut line = Vec::new();
        frame::write(&mut line, &Entry::End);
        self.sink.finish(line)
    }
}
