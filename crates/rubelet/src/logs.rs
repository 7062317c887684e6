//! The logs of containers, as runtimes write them: `<time> <stream> <P|F> <text>`.

mod files;
mod follow;
mod line;

pub(crate) use files::{instances, newest_pod_folder};
pub(crate) use follow::Follower;
pub(crate) use line::{Line, Stream};
