//! The container library's log messages while it builds a container.
//!
//! Its errors cross two forks as their outermost sentence only ("failed to prepare rootfs"); the reason is in what it
//! logs. So a helper collects that in a memory file that the forks share, and adds it to the error.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::embedded::error::{Error, Result};

/// More than any real reason; a library that repeats itself must not fill a log with it.
const MAX_TEXT: u64 = 2048;

/// The collected messages.
#[derive(Debug, Clone)]
pub(super) struct Diary(Arc<File>);

impl Diary {
    /// Starts collecting, for the rest of this process's life.
    pub(super) fn begin() -> Result<Self> {
        let file =
            memfd_create("diary", MemfdFlags::CLOEXEC).map_err(|errno| Error::io("make a file", errno))?;
        let diary = Self(Arc::new(file.into()));
        // Fails if there is already a subscriber, which then gets the messages.
        let _ = tracing::subscriber::set_global_default(diary.clone());
        Ok(diary)
    }

    /// Returns the messages so far, in one line.
    pub(super) fn read(&self) -> String {
        let mut text = Vec::new();
        let mut file: &File = &self.0;
        let _ = file.seek(SeekFrom::Start(0));
        let _ = file.take(MAX_TEXT).read_to_end(&mut text);
        String::from_utf8_lossy(&text).trim_end_matches("; ").to_owned()
    }
}

impl Subscriber for Diary {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        // One write per message: the offset is shared by all processes that have the file open.
        let _ = rustix::io::write(&*self.0, format!("{}{}; ", words.message, words.fields).as_bytes());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// An event as text: its message, then its fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_with_their_fields_and_nothing_else_is() {
        let file = memfd_create("diary", MemfdFlags::CLOEXEC).unwrap();
        let diary = Diary(Arc::new(file.into()));
        tracing::subscriber::with_default(diary.clone(), || {
            tracing::warn!("not this");
            tracing::error!(path = "/x", "failed to mount");
            tracing::error!("and failed again");
        });
        assert_eq!(diary.read(), "failed to mount path=\"/x\"; and failed again");
    }
}
