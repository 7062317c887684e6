//! The clients against a runtime that follows a script.

mod calls;
mod connecting;
mod events;
mod listing;
mod metrics;
mod support;
