//! Whether to follow the runtime's event stream.
//!
//! Some runtimes hand each event to one reader only. A watch that read events there would take them away from the
//! kubelet, so it does not, unless asked to.

use crate::endpoint::Runtime;
use crate::runtime_kind::RuntimeKind;

/// The user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Events {
    /// Follow the event stream, unless that takes events away from the kubelet
    Auto,
    /// Follow it wherever there is one
    On,
    /// Do not follow it; list once a second
    Off,
}

impl Events {
    pub(crate) fn are_followed_on(self, runtime: &Runtime) -> bool {
        match self {
            Self::Auto => !RuntimeKind::of(runtime).hands_each_event_to_one_reader(),
            Self::On => true,
            Self::Off => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_takes_no_events_away_unless_told_to() {
        let rows = [
            ("containerd", "1.6.39~ds1", true),
            ("containerd", "v1.7.0", false),
            ("containerd", "1.7.34-k3s1", false),
            ("containerd", "v2.0.0", true),
            ("containerd", "v2.17.1", true),
            ("cri-o", "1.25.5", true),
            ("cri-o", "1.26.0", false),
            ("cri-o", "1.27.8", false),
            ("cri-o", "1.28.0", true),
            ("docker", "1.7.0", true),
            ("containerd", "", true),
            ("containerd", "unknown", true),
        ];
        for (name, version, expected) in rows {
            let runtime = Runtime { name: name.to_owned(), version: version.to_owned() };
            assert_eq!(Events::Auto.are_followed_on(&runtime), expected, "{runtime}");
            assert!(Events::On.are_followed_on(&runtime) && !Events::Off.are_followed_on(&runtime));
        }
    }
}
