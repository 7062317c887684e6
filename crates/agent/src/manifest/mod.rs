//! Manifests: text in, pods out that the API server would have accepted, or problems that say where and why.

pub mod annotation;
mod objects;
mod problem;

pub use objects::{ObjectKey, Objects};
pub use problem::{FieldError, Issue, Problem, Severity};
