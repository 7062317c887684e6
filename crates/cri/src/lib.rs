//! CRI v1, the protocol between a node agent and a container runtime such as containerd or CRI-O, for Rust programs.
//!
//! There are two clients, [`RuntimeClient`] and [`ImageClient`], with a method for each call of the protocol. They
//! connect when they are first used, and reconnect after the runtime was restarted. Every call is counted under the
//! kubelet's metric names, has a time limit unless it may take as long as it likes ([`Options::limit`]), and fails with
//! an [`Error`] that says which call failed, how, and what to do about it.
//!
//! ```no_run
//! use rubelet_cri::{ListFilter, Metrics, Options, RuntimeClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = "unix:///run/containerd/containerd.sock".parse()?;
//! let client = RuntimeClient::new(endpoint, Options::default(), Metrics::default());
//! println!("{}", client.version().await?.runtime_name);
//! let mut events = client.get_container_events().await?; // before the list, so that nothing falls between them
//! for pod in client.list_pods(&ListFilter::All).await?.pods {
//!     for container in &pod.containers {
//!         println!("{} {} {}", pod.pod, container.name, container.state);
//!     }
//! }
//! while let Some(event) = events.next().await {
//!     let event = event?;
//!     println!("{} {:?}", event.container_id, event.container_event_type());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Observing
//!
//! The calls that a pod lifecycle event generator makes all the time return values of [`rubelet_model`] instead of
//! messages, and are built to be called often:
//!
//! - [`RuntimeClient::list_sandboxes`] and [`RuntimeClient::list_containers`] read only what a list view needs, while
//!   the answer arrives, in whichever way the runtime can send it: streamed, in one piece, or state by state if one
//!   piece would be too large. [`assemble`] makes pods of them.
//! - [`RuntimeClient::sandbox_status`] and [`RuntimeClient::container_status`] inspect a single sandbox or container.
//! - [`RuntimeClient::get_container_events`] follows the runtime's events.
//!
//! What is not understood is not taken as removed: an entry that cannot be decoded is shown in state *unknown*, or at
//! least counted, and affects no other entry. Every list says which connection it came over ([`SandboxList::epoch`]),
//! since a runtime that has restarted may not know everything at once.
//!
//! # Serving
//!
//! [`v1`] is the protocol itself: messages, clients, and traits for servers. [`Listener`] is a socket to serve them on,
//! with tonic 0.14 (features `server` and `router`).
//!
//! [`model`] is the crate `rubelet-model`, whose types appear in many signatures here.

pub mod labels;

mod assemble;
mod backoff;
mod call;
mod client;
mod codec;
mod connection;
pub mod convert;
mod endpoint;
mod error;
mod excerpt;
mod greeting;
mod intake;
mod lean;
mod link;
mod listing;
mod lists;
mod metrics;
mod operation;
mod options;
mod server;
mod wire;

pub use rubelet_model as model;
pub use tonic::Code;

pub use assemble::assemble;
pub use call::OUTPUT_LIMIT;
pub use client::{EventStream, ImageClient, RuntimeClient};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, ErrorKind};
pub use listing::{ContainerEntry, ContainerList, ListFilter, PodListing, SandboxEntry, SandboxList};
pub use metrics::Metrics;
pub use operation::Operation;
pub use options::Options;
pub use server::{BindError, Listener};

// Makes `cargo test` compile the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The protocol itself, generated: messages, clients and servers.
#[expect(
    missing_docs,
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::doc_markdown,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("runtime.v1");
}
