//! The resources of a cgroup, in the form that the kernel expects.

/// The cgroup version of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The resources of a cgroup. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) cpu_shares: i64,
    /// `None` for cgroups of a kind that has no limits.
    pub(super) limits: Option<Limits>,
}

/// The limits of a cgroup that has any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// The CPU time per period, in microseconds.
    pub(super) cpu_quota: Option<i64>,
    pub(super) cpu_period: i64,
    pub(super) memory: Option<i64>,
    pub(super) pids: Option<i64>,
    /// Whether the CPU and memory limits are the pod's own: then nothing else enforces them.
    pub(super) are_own: bool,
}

/// The value of one file in a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) controller: &'static str,
    pub(super) file: &'static str,
    pub(super) value: String,
    /// Whether it is an error if this cannot be enforced.
    pub(super) must_hold: bool,
}

impl Values {
    /// Returns values that set only the weight relative to sibling cgroups.
    pub(super) fn weight(cpu_shares: i64) -> Self {
        Self { cpu_shares, limits: None }
    }

    /// Returns the files to write, in this order. The kernel checks the weight against no limit, so it can come first
    /// whether the cgroup grows or shrinks.
    pub(super) fn settings(&self, version: Version) -> Vec<Setting> {
        let setting = |controller, file, value| Setting { controller, file, value, must_hold: false };
        let limit = |controller, file, value, must_hold| Setting { controller, file, value, must_hold };
        let or =
            |limit: Option<i64>, none: &str| limit.map_or_else(|| none.to_owned(), |limit| limit.to_string());
        let mut settings = vec![match version {
            Version::One => setting("cpu", "cpu.shares", self.cpu_shares.to_string()),
            Version::Two => setting("cpu", "cpu.weight", weight(self.cpu_shares).to_string()),
        }];
        let Some(Limits { cpu_quota, cpu_period, memory, pids, are_own }) = self.limits else {
            return settings;
        };
        let (cpu_holds, memory_holds) = (are_own && cpu_quota.is_some(), are_own && memory.is_some());
        match version {
            Version::One => settings.extend([
                setting("cpu", "cpu.cfs_period_us", cpu_period.to_string()),
                limit("cpu", "cpu.cfs_quota_us", or(cpu_quota, "-1"), cpu_holds),
                limit("memory", "memory.limit_in_bytes", or(memory, "-1"), memory_holds),
            ]),
            Version::Two => settings.extend([
                limit("cpu", "cpu.max", format!("{} {cpu_period}", or(cpu_quota, "max")), cpu_holds),
                limit("memory", "memory.max", or(memory, "max"), memory_holds),
            ]),
        }
        settings.push(limit("pids", "pids.max", or(pids, "max"), pids.is_some()));
        settings
    }
}

/// Returns what to write for the cgroup of all pods: its weight against everything else that runs, and the memory that
/// is not reserved.
pub(super) fn of_all_pods(version: Version, cpu_shares: i64, memory: Option<i64>) -> Vec<Setting> {
    let (file, none) = match version {
        Version::One => ("memory.limit_in_bytes", "-1"),
        Version::Two => ("memory.max", "max"),
    };
    let value = memory.map_or_else(|| none.to_owned(), |memory| memory.to_string());
    let mut settings = Values::weight(cpu_shares).settings(version);
    settings.push(Setting { controller: "memory", file, value, must_hold: false });
    settings
}

/// Returns the v2 weight for v1 shares: 2 to 262144 is mapped linearly to 1 to 10000.
fn weight(shares: i64) -> i64 {
    if shares >= 262_144 { 10_000 } else { 1 + (shares.max(2) - 2) * 9999 / 262_142 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &Values, version: Version) -> Vec<String> {
        let line = |setting: Setting| format!("{}: {}={}", setting.controller, setting.file, setting.value);
        values.settings(version).into_iter().map(line).collect()
    }

    #[test]
    fn each_version_has_its_files() {
        let limits = Limits {
            cpu_quota: Some(50_000),
            cpu_period: 100_000,
            memory: Some(1 << 20),
            pids: Some(100),
            are_own: false,
        };
        let values = Values { cpu_shares: 512, limits: Some(limits) };
        assert_eq!(
            written(&values, Version::One),
            [
                "cpu: cpu.shares=512",
                "cpu: cpu.cfs_period_us=100000",
                "cpu: cpu.cfs_quota_us=50000",
                "memory: memory.limit_in_bytes=1048576",
                "pids: pids.max=100"
            ]
        );
        assert_eq!(
            written(&values, Version::Two),
            [
                "cpu: cpu.weight=20",
                "cpu: cpu.max=50000 100000",
                "memory: memory.max=1048576",
                "pids: pids.max=100"
            ]
        );
        let unlimited = Limits { cpu_period: 100_000, ..Limits::default() };
        let unlimited = Values { cpu_shares: 2, limits: Some(unlimited) };
        assert_eq!(
            written(&unlimited, Version::Two),
            ["cpu: cpu.weight=1", "cpu: cpu.max=max 100000", "memory: memory.max=max", "pids: pids.max=max"]
        );
        assert_eq!(
            written(&unlimited, Version::One)[2..4],
            ["cpu: cpu.cfs_quota_us=-1", "memory: memory.limit_in_bytes=-1"]
        );
        assert_eq!(written(&Values::weight(2), Version::One), ["cpu: cpu.shares=2"]);
    }

    #[test]
    fn what_nobody_else_holds_a_pod_to_must_hold() {
        let limits = Limits { memory: Some(1 << 20), cpu_period: 100_000, ..Limits::default() };
        let held = |limits: Limits| -> Vec<&'static str> {
            let settings = Values { cpu_shares: 2, limits: Some(limits) }.settings(Version::Two);
            settings.iter().filter(|setting| setting.must_hold).map(|setting| setting.file).collect()
        };
        assert_eq!(held(limits), [""; 0]);
        assert_eq!(held(Limits { are_own: true, ..limits }), ["memory.max"]);
        assert_eq!(held(Limits { pids: Some(5), ..limits }), ["pids.max"]);
    }

    #[test]
    fn weights_are_the_kubelets() {
        for (shares, wanted) in
            [(0, 1), (2, 1), (102, 4), (1024, 39), (262_143, 9999), (262_144, 10_000), (1 << 40, 10_000)]
        {
            assert_eq!(weight(shares), wanted, "{shares}");
        }
    }
}
