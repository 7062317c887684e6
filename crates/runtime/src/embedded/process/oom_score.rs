//! How readily the kernel ends a process for want of memory.

/// That of a process which keeps others: it goes after all of them, as with other runtimes, and before those that watch it.
const KEEPER: &str = "-998";

/// Makes this process one of the last to go. What it starts must be given a score of its own.
///
/// Who has no right to this keeps the score that it has, and need not say so: it is the runtime's, which has said so once.
pub(crate) fn outlast_others() {
    let _ = std::fs::write("/proc/self/oom_score_adj", KEEPER);
}
