//! Events in rows.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use super::sheet::table;
use crate::summary::span;

/// Formats events as kubectl does at the end of a description: oldest first, with their counts.
pub(super) fn events_table(events: &[Event], now: Timestamp) -> String {
    let rows: Vec<[String; 5]> = events.iter().map(|event| row(event, now)).collect();
    table(["Type", "Reason", "Age", "From", "Message"], &rows)
}

fn row(event: &Event, now: Timestamp) -> [String; 5] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let message = text(&event.message).trim_end().replace('\n', " ");
    [text(&event.type_), text(&event.reason), event_age(event, now), from(event), message]
}

/// Returns how long ago an event last happened and, if it has been repeated, also how often and for how long.
pub(crate) fn event_age(event: &Event, now: Timestamp) -> String {
    let ago = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map(|time| span(time.0, now)).unwrap_or_default()
    };
    let last = ago(&event.last_timestamp);
    match event.count {
        Some(count) if count > 1 => format!("{last} (x{count} over {})", ago(&event.first_timestamp)),
        _ => last,
    }
}

fn from(event: &Event) -> String {
    event.source.as_ref().and_then(|source| source.component.clone()).unwrap_or_default()
}
