//! `rubelet watch` as its users run it: the real binary, on synthetic runtimes and on real ones.

mod bad_sockets;
mod containerd;
mod events;
mod pods;
mod program;
mod secrets;
mod short_lives;
mod stalled;
mod synthetic;
