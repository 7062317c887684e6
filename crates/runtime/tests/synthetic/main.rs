//! The synthetic runtime, seen through a socket by a plain gRPC client.
#![cfg(feature = "synthetic")]

mod calls;
mod client;
mod corruption;
mod event_contents;
mod event_delivery;
mod event_faults;
mod faults;
mod images;
mod lifecycle;
mod lists;
mod many;
mod restart;
mod statuses;
mod world;
