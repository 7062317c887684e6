//! The node agent: it keeps the pods of its sources running. Decisions are plain functions over values; the async code
//! around them owns sockets, timers and tasks.

pub mod downward;
pub mod environment;
mod fnv;
pub mod manifest;
pub mod merge;
pub mod resource;
pub mod source;
pub mod volumes;
