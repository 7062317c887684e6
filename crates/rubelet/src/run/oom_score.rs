//! Who goes first when the machine has no memory left: not the agent, or nobody would bring back those who went.

use std::fs;

use super::remarks::Remarks;

/// A kubelet's own: only what nobody may kill comes after it.
const USUAL: i32 = -999;

const FILE: &str = "/proc/self/oom_score_adj";

/// Has the kernel spare this process. Without the right to it (`CAP_SYS_RESOURCE`) that is not to be had; only who asks for
/// it is told.
pub(super) fn set(asked: Option<i32>, remarks: &Remarks) {
    let wanted = asked.unwrap_or(USUAL);
    let Err(error) = fs::write(FILE, wanted.to_string()) else { return };
    if asked.is_some() {
        remarks.print(&format!("oomScoreAdj {wanted} has no effect: {error}; it needs CAP_SYS_RESOURCE"));
    } else {
        tracing::debug!(%error, "the agent is not protected when memory runs out");
    }
}
