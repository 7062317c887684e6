//! `rubelet runtime` as others use it: crictl, a pipe for its log, a user other than root.

mod crictl;
mod log;
mod program;
mod rootless;
