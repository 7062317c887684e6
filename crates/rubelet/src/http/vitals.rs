//! Metrics of this process, under their conventional names.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the values when metrics are collected.
#[derive(Debug)]
pub(crate) struct Vitals;

/// What the system reports about a process.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    /// In seconds since 1970.
    started: f64,
    resident_bytes: u64,
}

impl Usage {
    fn of_this_process() -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        Self::read(&read("/proc/self/stat")?, &read("/proc/self/status")?, &read("/proc/stat")?, ticks)
    }

    /// Parses `/proc/PID/stat`, `/proc/PID/status` and `/proc/stat`, given the number of ticks per second.
    fn read(stat: &str, status: &str, machine: &str, ticks: f64) -> Option<Self> {
        // The process name comes before this, and may itself contain blanks and parentheses. The first field after it
        // is the third.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let seconds = |field: usize| Some(fields.get(field - 3)?.parse::<f64>().ok()? / ticks);
        let booted =
            machine.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok())?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"))?;
        Some(Self {
            cpu_seconds: seconds(14)? + seconds(15)?,
            started: booted + seconds(22)?,
            resident_bytes: resident.trim().parse::<u64>().ok()? << 10,
        })
    }
}

impl Collector for Vitals {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(Usage { cpu_seconds, started, resident_bytes }) = Usage::of_this_process() else {
            return Ok(());
        };
        let mut put = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        put(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds",
            &ConstCounter::new(cpu_seconds),
        )?;
        put(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds",
            &ConstGauge::new(started),
        )?;
        put(
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            &ConstGauge::new(resident_bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_whatever_the_process_is_called() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 900 0 0 0 250 75 0 0 20 0 3 0 1000 1 2 3";
        let status = "Name:\ta\nVmHWM:\t  9000 kB\nVmRSS:\t  8192 kB\n";
        let machine = "cpu  1 2 3\nbtime 1771200000\nprocesses 7\n";
        let wanted = Usage { cpu_seconds: 3.25, started: 1_771_200_010.0, resident_bytes: 8 << 20 };
        assert_eq!(Usage::read(stat, status, machine, 100.0), Some(wanted));
        assert_eq!(Usage::read("", status, machine, 100.0), None);
        let own = Usage::of_this_process().expect("it lives");
        assert!(own.resident_bytes > 1 << 20 && own.started > 1e9, "{own:?}");
    }

    #[test]
    fn they_are_called_as_everywhere() {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Vitals));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for sample in
            ["process_cpu_seconds_total", "process_start_time_seconds", "process_resident_memory_bytes"]
        {
            let value = text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse::<f64>().ok());
            assert!(value.is_some(), "{sample}: {text}");
        }
    }
}
