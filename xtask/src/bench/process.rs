//! The resources that a process has used, according to the kernel.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// What a process has used so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    cpu: Duration,
    /// The number of times that each of its threads went to sleep voluntarily.
    sleeps: BTreeMap<OsString, u64>,
}

/// What a process used within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// User and system time, to the nanosecond, including threads that have ended.
    pub(super) cpu: Duration,
    /// The number of times that one of its threads went to sleep voluntarily, and so was woken. Threads that ended in
    /// the meantime, such as idle ones of a pool, are not included.
    pub(super) wakeups: u64,
}

impl Spent {
    /// The share of one core, in percent.
    pub(super) fn percent(self, window: Duration) -> f64 {
        self.cpu.as_secs_f64() / window.as_secs_f64() * 100.0
    }
}

impl Usage {
    /// Returns what was used since then.
    pub(super) fn since(&self, before: &Self) -> Spent {
        let slept = |(thread, now): (&OsString, &u64)| {
            now.saturating_sub(before.sleeps.get(thread).copied().unwrap_or_default())
        };
        Spent { cpu: self.cpu.saturating_sub(before.cpu), wakeups: self.sleeps.iter().map(slept).sum() }
    }
}

pub(super) fn usage(pid: u32) -> anyhow::Result<Usage> {
    let mut sleeps = BTreeMap::new();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.with_context(|| format!("process {pid} has ended"))? {
        let task = task?;
        // A thread may end while it is being read.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let slept = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps.insert(task.file_name(), slept.context("no voluntary_ctxt_switches")?.trim().parse()?);
    }
    Ok(Usage { cpu: cpu(pid)?, sleeps })
}

/// Returns the CPU time of a process so far.
pub(super) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?));
    let time = clock.and_then(clock_gettime).with_context(|| format!("process {pid} has ended"))?;
    Ok(time.into())
}

/// Returns the resident memory of a process, including shared pages, in KiB.
pub(super) fn rss_kib(pid: u32) -> anyhow::Result<u64> {
    memory_kib(pid, "VmRSS")
}

/// Returns the part of that which only this process has: no other process can share it, and the kernel cannot read it
/// again from a file.
pub(super) fn anonymous_kib(pid: u32) -> anyhow::Result<u64> {
    memory_kib(pid, "RssAnon")
}

/// Returns the peak resident memory of this process so far, in KiB.
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
        assert!(usage(u32::MAX).is_err());
    }

    #[test]
    fn threads_come_and_go() {
        let used = |seconds, threads: &[(&str, u64)]| Usage {
            cpu: Duration::from_secs(seconds),
            sleeps: threads.iter().map(|(name, sleeps)| (OsString::from(name), *sleeps)).collect(),
        };
        let (before, after) = (used(20, &[("1", 5), ("2", 7)]), used(24, &[("1", 6), ("3", 2)]));
        assert_eq!(after.since(&before), Spent { cpu: Duration::from_secs(4), wakeups: 3 });
    }

    #[test]
    fn a_thread_that_has_ended_is_in_the_time_of_its_process() {
        let own = std::process::id();
        let before = cpu(own).unwrap();
        let of_the_thread = std::thread::spawn(|| {
            let own_time = || clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
            while own_time().tv_nsec() < 5_000_000 {}
            Duration::from(own_time())
        });
        let of_the_thread = of_the_thread.join().unwrap();
        assert!(cpu(own).unwrap() - before >= of_the_thread);
    }
}
