//! What a process has used, read from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;

/// What each thread of a process has used so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage(BTreeMap<OsString, Spent>);

/// What was used in a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// User and system, to the nanosecond.
    pub(super) cpu: Duration,
    /// How often one of its threads went to sleep of its own accord, and so was woken.
    pub(super) wakeups: u64,
}

impl Spent {
    /// Of one core, in percent.
    pub(super) fn percent(self, window: Duration) -> f64 {
        self.cpu.as_secs_f64() / window.as_secs_f64() * 100.0
    }
}

impl Usage {
    /// What was used since. Threads that ended meanwhile, as idle ones of a pool do, are not in it.
    pub(super) fn since(&self, before: &Self) -> Spent {
        let mut all = Spent::default();
        for (thread, now) in &self.0 {
            let then = before.0.get(thread).copied().unwrap_or_default();
            all.cpu += now.cpu.saturating_sub(then.cpu);
            all.wakeups += now.wakeups.saturating_sub(then.wakeups);
        }
        all
    }
}

pub(super) fn usage(pid: u32) -> anyhow::Result<Usage> {
    let mut threads = BTreeMap::new();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.with_context(|| format!("process {pid} has ended"))? {
        let task = task?;
        let read = |file: &str| std::fs::read_to_string(task.path().join(file));
        // A thread may end while it is looked at.
        let (Ok(schedule), Ok(status)) = (read("schedstat"), read("status")) else { continue };
        let running = schedule.split_whitespace().next().and_then(|text| text.parse().ok());
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let spent = Spent {
            cpu: Duration::from_nanos(running.context("the kernel does not tell how long threads run")?),
            wakeups: sleeps.context("no voluntary_ctxt_switches")?.trim().parse()?,
        };
        threads.insert(task.file_name(), spent);
    }
    Ok(Usage(threads))
}

/// CPU time of a process so far, threads that have ended included; only to the hundredth of a second.
pub(super) fn whole_cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    // `pid (name) state …`, where the name may hold anything; user and system time are fields 14 and 15.
    let fields = stat.rsplit_once(')').context("no stat")?.1;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Memory that a process has resident now, shared pages included, in KiB.
pub(super) fn rss_kib(pid: u32) -> anyhow::Result<u64> {
    memory_kib(pid, "VmRSS")
}

/// Of that, what only this process has: no other process can share it, and the kernel cannot read it again from a file.
pub(super) fn anonymous_kib(pid: u32) -> anyhow::Result<u64> {
    memory_kib(pid, "RssAnon")
}

/// The most memory that this process has had resident so far, in KiB.
pub(super) fn own_peak_kib() -> anyhow::Result<u64> {
    memory_kib(std::process::id(), "VmHWM")
}

fn memory_kib(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().strip_suffix("kB"));
    Ok(value.with_context(|| format!("no {field}"))?.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_has_memory_and_cpu_time() {
        let own = std::process::id();
        assert!((1..rss_kib(own).unwrap()).contains(&anonymous_kib(own).unwrap()));
        let used = usage(own).unwrap();
        assert!(!used.since(&Usage::default()).cpu.is_zero());
        assert_eq!(used.since(&used), Spent::default());
        assert!(whole_cpu(own).is_ok());
        assert!(usage(u32::MAX).is_err());
    }

    #[test]
    fn threads_come_and_go() {
        let spent = |seconds| Spent { cpu: Duration::from_secs(seconds), wakeups: seconds };
        let threads = |list: &[(&str, u64)]| {
            Usage(list.iter().map(|(name, seconds)| (OsString::from(name), spent(*seconds))).collect())
        };
        let (before, after) = (threads(&[("1", 5), ("2", 7)]), threads(&[("1", 6), ("3", 2)]));
        assert_eq!(after.since(&before), spent(3));
    }
}
