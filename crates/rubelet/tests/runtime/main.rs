//! `rubelet runtime` as other programs use it: crictl, a pipe for its log, a user who is not root.

mod crictl;
mod log;
mod program;
mod rootless;
