//! The synthetic runtime, seen through a socket by a plain gRPC client.
#![cfg(feature = "synthetic")]

mod calls;
mod client;
mod faults;
mod lists;
mod statuses;
