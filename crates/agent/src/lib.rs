//! The node agent: it keeps the pods of its sources running. Decisions are plain functions over values; the async code
//! around them owns sockets, timers and tasks.

pub mod downward;
pub mod environment;
mod image;
pub mod manifest;
pub mod merge;
mod pod;
mod probe;
pub mod resource;
pub mod runtime;
pub mod source;
mod status;
pub mod volumes;
