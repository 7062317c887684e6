//! What processes cost that have nothing to do, read from `/proc`.

use std::time::Duration;

use anyhow::Context;

/// CPU time that all threads of a process have had so far, to the nanosecond.
pub(super) fn cpu(pid: &str) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).context("no schedstat")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Memory that a process has resident now, shared pages included, in KiB.
pub(super) fn rss_kib(pid: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_that_runs_has_memory_and_cpu_time() {
        assert!(super::rss_kib("self").unwrap() > 0);
        assert!(!super::cpu("self").unwrap().is_zero());
    }
}
