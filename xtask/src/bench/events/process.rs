//! What another process has used so far.

use std::ops::Sub;
use std::time::Duration;

use anyhow::Context;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Of all its threads, user and system.
    pub(super) cpu: Duration,
    /// How often one of its threads went to sleep of its own accord, and so was woken.
    pub(super) wakeups: u64,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        // A thread that has ended takes its share with it.
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

pub(super) fn usage(pid: u32) -> anyhow::Result<Usage> {
    let tasks = format!("/proc/{pid}/task");
    let mut usage = Usage::default();
    for task in std::fs::read_dir(&tasks).with_context(|| format!("process {pid} has ended"))? {
        let task = task?.path();
        // A thread may end while it is looked at.
        let (Ok(schedule), Ok(status)) =
            (std::fs::read_to_string(task.join("schedstat")), std::fs::read_to_string(task.join("status")))
        else {
            continue;
        };
        let running = schedule.split_whitespace().next().and_then(|text| text.parse().ok());
        usage.cpu += Duration::from_nanos(running.context("the kernel does not tell how long threads run")?);
        let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        usage.wakeups += sleeps.context("no voluntary_ctxt_switches")?.trim().parse::<u64>()?;
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something() {
        let used = usage(std::process::id()).unwrap();
        assert!(used.cpu > Duration::ZERO);
        assert_eq!((used - used).cpu, Duration::ZERO);
        assert!(usage(u32::MAX).is_err());
    }
}
