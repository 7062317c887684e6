//! The logs of containers, as runtimes write them: `<time> <stream> <P|F> <text>`.

mod follow;
mod line;

pub(crate) use follow::Follower;
pub(crate) use line::{Line, Stream};
