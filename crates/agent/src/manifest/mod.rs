//! Manifests: turns text into pods that the API server would have accepted, or into problems that say where and why.
//!
//! ```text
//! text ─ tree (YAML, limits) ─ typed (types, unknown fields) ─ default ─ static_pod (name, UID) ─ validate ─ pods
//! ```
//! A file is used as a whole or not at all.

pub mod annotation;
mod bounded;
mod default;
mod fields;
mod kind;
mod load;
mod objects;
mod problem;
mod static_pod;
mod tree;
mod typed;
mod validate;

pub use load::{Manifest, load};
pub use objects::{ObjectKey, Objects};
pub use problem::{FieldError, Issue, Problem, Severity};
pub use static_pod::Origin;
pub use tree::LARGEST_MANIFEST;
pub use validate::check_node_name;
