//! The sync loop: everything that happens comes in here, and is routed to the pod that it concerns. It only routes.
//!
//! It waits for nothing but its own inputs: no call, no disk, no full channel. Work that needs those runs as a task,
//! whose result comes back as an input.

mod actors;
mod pulse;
mod route;
mod survey;
mod task;
#[cfg(test)]
mod tests;
mod unrest;

pub use pulse::{Pulse, Unresponsive};
pub use route::Outlook;
pub use survey::survey;
pub use task::{Agent, AgentHandle, AgentParts, PodSelector, Readiness};
