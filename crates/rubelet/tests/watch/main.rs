//! `rubelet watch` as its users run it: the real binary, on synthetic runtimes and on real ones.

mod bad_sockets;
mod containerd;
mod program;
mod synthetic;
