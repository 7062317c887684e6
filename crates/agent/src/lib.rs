//! The node agent, which keeps the pods of its sources running. Decisions are plain functions over values; the async
//! code around them owns sockets, timers and tasks.

pub mod admission;
pub mod board;
pub mod cgroup;
mod clock;
mod disk;
pub mod downward;
pub mod environment;
pub mod event;
mod fnv;
pub mod gc;
mod host_ips;
mod image;
pub mod leavings;
mod log_reader;
pub mod manifest;
pub mod merge;
pub mod metrics;
mod off_thread;
pub mod pod;
mod pod_file;
mod probe;
mod reach;
pub mod resource;
pub mod runtime;
pub mod settings;
pub mod source;
mod status;
pub mod sync_loop;
#[cfg(test)]
mod testkit;
mod under_way;
pub mod user_ids;
pub mod volumes;
