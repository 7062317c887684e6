//! `rubelet watch` in real use: the real program, on synthetic and on real runtimes.

mod bad_sockets;
mod containerd;
mod events;
mod pods;
mod program;
mod secrets;
mod short_lives;
mod stalled;
mod synthetic;
