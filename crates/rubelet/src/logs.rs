//! The logs of containers, as runtimes write them: `<time> <stream> <P|F> <text>`.

mod files;
mod follow;
mod line;
mod over;
mod printer;
mod tail;

pub(crate) use files::{PodLogs, instances, newest_pod_logs};
pub(crate) use follow::Follower;
pub(crate) use over::{is_between_instances, is_over};
pub(crate) use printer::{Printer, Streams, Style};
pub(crate) use tail::{LogFile, Tail, Told};
