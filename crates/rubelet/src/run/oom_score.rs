//! The agent's OOM score: when memory runs out, pods are killed before the agent, because only the agent can restart
//! them.

use std::fs;

use super::remarks::Remarks;

/// The kubelet's value: only processes that are exempt from the OOM killer are ranked lower.
const USUAL: i32 = -999;

const FILE: &str = "/proc/self/oom_score_adj";

/// Sets the OOM score of this process. Without the required capability (`CAP_SYS_RESOURCE`) it has no effect, which is
/// reported only if a score was asked for.
pub(super) fn set(asked: Option<i32>, remarks: &Remarks) {
    let wanted = asked.unwrap_or(USUAL);
    let Err(error) = fs::write(FILE, wanted.to_string()) else { return };
    if asked.is_some() {
        remarks.print(&format!("oomScoreAdj {wanted} has no effect: {error}; it needs CAP_SYS_RESOURCE"));
    } else {
        tracing::debug!(%error, "the agent is not protected when memory runs out");
    }
}
