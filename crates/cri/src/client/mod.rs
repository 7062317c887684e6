//! The clients: one method for each call.

mod observe;
mod runtime;

pub use runtime::RuntimeClient;
