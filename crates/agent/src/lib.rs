//! The node agent: it keeps the pods of its sources running. Decisions are plain functions over values; the async code
//! around them owns sockets, timers and tasks.

mod pod;
mod probe;
