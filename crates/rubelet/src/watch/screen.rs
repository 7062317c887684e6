//! The output of a watch, and its remarks on standard error.

use super::{Filter, Format, Item, Note, json, lines};
use crate::log::Log;
use crate::printer::{Printer, Room, Stopped};

/// Where items are shown, in which format, and which of them.
pub(super) struct Screen {
    pub(super) printer: Printer,
    pub(super) remarks: Log,
    pub(super) format: Format,
    pub(super) filter: Filter,
}

impl Screen {
    pub(super) async fn show(&self, item: &Item<'_>) -> Result<(), Stopped> {
        if !self.is_shown(item) {
            return Ok(());
        }
        match self.format {
            Format::Json => self.printer.print(json::line(item)).await,
            Format::Text => match item {
                Item::Pod(_) | Item::Event(_) => self.printer.print(lines::line(item)).await,
                Item::Watching { .. } | Item::Note { .. } => {
                    // On a terminal, the remark comes after what happened before it, unless that cannot be printed.
                    self.printer.flush_what_it_can().await;
                    self.remarks.print(&lines::line(item));
                    Ok(())
                }
            },
        }
    }

    /// Shows an item for which there is room.
    pub(super) fn show_in(&self, room: Room<'_>, item: &Item<'_>) {
        if self.is_shown(item) {
            room.print(match self.format {
                Format::Json => json::line(item),
                Format::Text => lines::line(item),
            });
        }
    }

    fn is_shown(&self, item: &Item<'_>) -> bool {
        match item {
            Item::Pod(status) => self.filter.shows_pod(&status.pod),
            Item::Event(event) => self.filter.shows(event),
            Item::Note { note: Note::PodStuck(stuck), .. } => self.filter.shows_pod(&stuck.pod),
            Item::Note { note: Note::PodUnstuck { pod, .. }, .. } => self.filter.shows_pod(pod),
            Item::Note { note: Note::LookHangs(look), .. } => self.filter.shows_pod(&look.pod),
            Item::Note {
                note:
                    Note::EventsLeftAlone { .. }
                    | Note::StoodStill(_)
                    | Note::RuntimeLost { .. }
                    | Note::RuntimeBack { .. }
                    | Note::Reconnected
                    | Note::ListHangs(_)
                    | Note::ListAnswers { .. }
                    | Note::ListsOften { .. },
                ..
            }
            | Item::Watching { .. } => true,
        }
    }

    pub(super) async fn note(&self, note: &Note) -> Result<(), Stopped> {
        self.show(&Item::Note { note, at: pleg::clock::wall_clock() }).await
    }
}
