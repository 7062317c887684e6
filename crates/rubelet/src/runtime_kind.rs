//! What is known of a runtime by its name and version, because the protocol does not reveal it.

use crate::endpoint::Runtime;

/// Runtimes that differ in behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeKind {
    Containerd { major: u32, minor: u32 },
    CriO { major: u32, minor: u32 },
    Other,
}

impl RuntimeKind {
    /// Determines the kind from the name and version that the runtime reports.
    pub(crate) fn of(runtime: &Runtime) -> Self {
        let mut numbers = runtime.version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().and_then(|number| number.parse().ok());
        match (runtime.name.as_str(), number(), number()) {
            ("containerd", Some(major), Some(minor)) => Self::Containerd { major, minor },
            ("cri-o", Some(major), Some(minor)) => Self::CriO { major, minor },
            _ => Self::Other,
        }
    }

    /// Whether two readers of its events take events away from each other.
    pub(crate) fn hands_each_event_to_one_reader(self) -> bool {
        matches!(self, Self::Containerd { major: 1, minor: 7 } | Self::CriO { major: 1, minor: 26 | 27 })
    }

    /// Whether it blocks when a reader of its events does not read.
    pub(crate) fn waits_for_slow_readers(self) -> bool {
        matches!(self, Self::Containerd { major: 2.., .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_what_they_call_themselves() {
        let of = |name: &str, version: &str| {
            RuntimeKind::of(&Runtime { name: name.to_owned(), version: version.to_owned() })
        };
        for (name, version, kind) in [
            ("containerd", "v1.7.34", RuntimeKind::Containerd { major: 1, minor: 7 }),
            ("containerd", "2.3.4+unknown", RuntimeKind::Containerd { major: 2, minor: 3 }),
            ("containerd", "1.6.39~ds1", RuntimeKind::Containerd { major: 1, minor: 6 }),
            ("cri-o", "1.27.0", RuntimeKind::CriO { major: 1, minor: 27 }),
            ("rubelet", "0.1.0", RuntimeKind::Other),
            ("containerd", "", RuntimeKind::Other),
            ("containerd", "unknown", RuntimeKind::Other),
        ] {
            assert_eq!(of(name, version), kind, "{name} {version}");
        }
        assert!(of("containerd", "v2.0.0").waits_for_slow_readers());
        assert!(!of("containerd", "v1.7.0").waits_for_slow_readers());
    }
}
