//! The cost of one piece of work, and statistics over many.

use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// The cost of one piece of work of a worker, or a statistic over many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// How long it took.
    pub(super) wall: Duration,
    /// The CPU time, user and system, that the worker's process used for it.
    pub(super) cpu: Duration,
    /// The peak resident memory of the process so far, in KiB.
    pub(super) peak_kib: u64,
}

impl Sample {
    /// Formats it as one line, for a pipe.
    pub(super) fn to_line(self) -> String {
        format!("{} {} {}", self.wall.as_nanos(), self.cpu.as_nanos(), self.peak_kib)
    }

    pub(super) fn from_line(line: &str) -> anyhow::Result<Self> {
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("not numbers")?;
        let [wall, cpu, peak_kib] = numbers[..] else {
            anyhow::bail!("three numbers expected, not {line:?}");
        };
        Ok(Self { wall: Duration::from_nanos(wall), cpu: Duration::from_nanos(cpu), peak_kib })
    }
}

/// Many samples of the same work.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    pub(super) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// Returns the value below which `share` of all values lie, for each column separately.
    pub(super) fn quantile(&self, share: f64) -> Sample {
        Sample {
            wall: quantile(self.0.iter().map(|sample| sample.wall), share),
            cpu: quantile(self.0.iter().map(|sample| sample.cpu), share),
            peak_kib: quantile(self.0.iter().map(|sample| sample.peak_kib), share),
        }
    }

    pub(super) fn median(&self) -> Sample {
        self.quantile(0.5)
    }

    pub(super) fn p99(&self) -> Sample {
        self.quantile(0.99)
    }
}

/// Returns the value below which `share` of all values lie.
pub(super) fn quantile<T: Ord + Default + Copy>(values: impl Iterator<Item = T>, share: f64) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// Returns the CPU time that this process has used so far, user and system.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_crosses_a_pipe() {
        let sample =
            Sample { wall: Duration::from_micros(17), cpu: Duration::from_nanos(3), peak_kib: 40960 };
        let read = Sample::from_line(&sample.to_line()).unwrap();
        assert_eq!((read.wall, read.cpu, read.peak_kib), (sample.wall, sample.cpu, sample.peak_kib));
        assert!(Sample::from_line("1 2").is_err());
    }

    #[test]
    fn quantiles_of_few_and_of_none() {
        assert_eq!(quantile([3, 1, 2].into_iter(), 0.5), 2);
        assert_eq!(quantile(1..=100, 0.99), 99);
        assert_eq!(quantile(std::iter::empty::<u64>(), 0.5), 0);
    }
}
