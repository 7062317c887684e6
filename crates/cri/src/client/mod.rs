//! The clients, with one method for each call.

mod containers;
mod events;
mod exec;
mod image;
mod observe;
mod runtime;
mod sandboxes;
mod stats;

pub use events::EventStream;
pub use image::ImageClient;
pub use runtime::RuntimeClient;

/// The full name of a method of the runtime service.
macro_rules! method {
    ($method:literal) => {
        concat!("/runtime.v1.RuntimeService/", $method)
    };
}
use method;

/// For calls that have no time of their own to grant; see [`Options::limit`](crate::Options::limit).
const NO_TIME: std::time::Duration = std::time::Duration::ZERO;
