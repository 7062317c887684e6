//! CRI v1, the protocol between a node agent and a container runtime, for Rust programs.

pub mod labels;

mod assemble;
mod backoff;
mod call;
mod client;
mod codec;
mod connection;
mod convert;
mod endpoint;
mod error;
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

pub use assemble::assemble;
pub use client::{EventStream, ImageClient, RuntimeClient};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, ErrorKind};
pub use listing::{ContainerEntry, ContainerList, ListFilter, PodListing, SandboxEntry, SandboxList};
pub use metrics::Metrics;
pub use operation::Operation;
pub use options::Options;
pub use server::{BindError, Listener};

/// The protocol itself: messages, clients and servers, generated.
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
