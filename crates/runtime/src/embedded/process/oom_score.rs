//! How readily the kernel kills a process when memory runs out.

/// The score of a process that keeps others alive: killed after all of them, as with other runtimes, and before those
/// that watch it.
const KEEPER: &str = "-998";

/// Makes this process one of the last to be killed. Processes that it starts must be given a score of their own.
///
/// Without the right to do this, the process keeps its score, which is the runtime's. That needs no log line here: the
/// runtime has already logged it once.
pub(crate) fn outlast_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", KEEPER);
}
