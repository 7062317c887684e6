//! What processes cost that have nothing to do, read from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;

/// CPU time that each thread of a process has had so far, to the nanosecond.
pub(super) type Cpu = BTreeMap<OsString, Duration>;

pub(super) fn cpu(pid: &str) -> anyhow::Result<Cpu> {
    let mut threads = Cpu::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        // One that has just ended has nothing more to add.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        let nanos = text.split(' ').next().and_then(|word| word.parse().ok()).context("no schedstat")?;
        threads.insert(task.file_name(), Duration::from_nanos(nanos));
    }
    Ok(threads)
}

/// What was spent in between. Threads that ended meanwhile, as idle ones of a pool do, are not in it.
pub(super) fn spent(before: &Cpu, after: &Cpu) -> Duration {
    let since = |(thread, now): (&OsString, &Duration)| {
        now.saturating_sub(before.get(thread).copied().unwrap_or_default())
    };
    after.iter().map(since).sum()
}

/// Memory that a process has resident now, shared pages included, in KiB.
pub(super) fn rss_kib(pid: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_has_memory_and_cpu_time() {
        assert!(rss_kib("self").unwrap() > 0);
        assert!(!spent(&Cpu::new(), &cpu("self").unwrap()).is_zero());
    }

    #[test]
    fn threads_come_and_go() {
        let threads = |list: &[(&str, u64)]| -> Cpu {
            list.iter().map(|(name, seconds)| (OsString::from(name), Duration::from_secs(*seconds))).collect()
        };
        let (before, after) = (threads(&[("1", 5), ("2", 7)]), threads(&[("1", 6), ("3", 2)]));
        assert_eq!(spent(&before, &after), Duration::from_secs(3));
    }
}
