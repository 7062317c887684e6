//! `rubelet run` in real use: the real program, the embedded runtime, real containers.
//!
//! Needs root; without it, the tests say so and pass.

mod containerd;
mod ends;
mod hostile;
#[path = "../../../runtime/tests/image_fixture/mod.rs"]
mod image_fixture;
mod lifecycle;
mod limits;
mod logs;
mod node;
mod once;
mod own_users;
mod probes;
mod pull_secrets;
mod reasons;
mod security;
mod standalone;
mod survival;
mod tls_server;
mod unread;
mod updates;
mod upheaval;
