//! Pods of many kinds, each of whose processes says to whom it belongs.

use std::fmt::Write as _;

/// In the environment of every process: `node/slot/version/container`.
pub(super) const MARK: &str = "RUBELET_UPHEAVAL";

/// What a pod is like. A slot keeps its kind over all its versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One container that ends when it is told to.
    Plain,
    /// One that does not.
    Stubborn,
    /// One that fails again and again.
    Crashing,
    /// One after another that has to succeed first.
    Initialised,
    /// One with another beside it that starts before and ends after it.
    Accompanied,
    /// Two, with a folder in memory between them.
    Double,
}

const KINDS: [Kind; 6] =
    [Kind::Plain, Kind::Stubborn, Kind::Crashing, Kind::Initialised, Kind::Accompanied, Kind::Double];

const OBEDIENT: &str = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done";
const STUBBORN: &str = "trap '' TERM; while :; do sleep 1000; done";
const BRIEF: &str = "sleep 0.2";
const FAILING: &str = "sleep 0.3; exit 1";

impl Kind {
    pub(super) fn of(slot: usize) -> Self {
        KINDS[slot % KINDS.len()]
    }

    /// Names and programs of containers that go before, beside, and are what the pod is for.
    fn containers(self) -> [Vec<(&'static str, &'static str)>; 3] {
        match self {
            Self::Plain => [vec![], vec![], vec![("main", OBEDIENT)]],
            Self::Stubborn => [vec![], vec![], vec![("main", STUBBORN)]],
            Self::Crashing => [vec![], vec![], vec![("main", FAILING)]],
            Self::Initialised => [vec![("init", BRIEF)], vec![], vec![("main", OBEDIENT)]],
            Self::Accompanied => [vec![], vec![("sidecar", OBEDIENT)], vec![("main", OBEDIENT)]],
            Self::Double => [vec![], vec![], vec![("main", OBEDIENT), ("other", OBEDIENT)]],
        }
    }

    /// The containers that run as long as the pod does; none of one that fails again and again.
    pub(super) fn lasting(self) -> Vec<&'static str> {
        let [_, beside, regular] = self.containers();
        let lasts = |(_, program): &(&str, &str)| *program != FAILING;
        beside.into_iter().chain(regular).filter(lasts).map(|(name, _)| name).collect()
    }
}

/// One version of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    pub(super) node: &'a str,
    pub(super) slot: usize,
    pub(super) version: u32,
    pub(super) image: &'a str,
}

impl Version<'_> {
    pub(super) fn manifest(self) -> String {
        let Self { slot, .. } = self;
        let kind = Kind::of(slot);
        let [before, beside, regular] = kind.containers();
        let mut text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{ name: pod-{slot} }}\nspec:\n  hostNetwork: true\n  \
             terminationGracePeriodSeconds: 1\n"
        );
        if kind == Kind::Double {
            text.push_str("  volumes: [{ name: between, emptyDir: { medium: Memory } }]\n");
        }
        if !before.is_empty() || !beside.is_empty() {
            text.push_str("  initContainers:\n");
        }
        for (name, program) in before {
            self.container(&mut text, name, program, "");
        }
        for (name, program) in beside {
            self.container(&mut text, name, program, "    restartPolicy: Always\n");
        }
        text.push_str("  containers:\n");
        for (name, program) in regular {
            let mount = "    volumeMounts: [{ name: between, mountPath: /tmp }]\n";
            self.container(&mut text, name, program, if kind == Kind::Double { mount } else { "" });
        }
        text
    }

    fn container(self, text: &mut String, name: &str, program: &str, more: &str) {
        let Self { node, slot, version, image } = self;
        let written = write!(
            text,
            "  - name: {name}\n    image: {image}\n    imagePullPolicy: IfNotPresent\n    command: [sh, -c, \"{program}\"]\n    \
             env: [{{ name: {MARK}, value: {node}/{slot}/{version}/{name} }}]\n{more}"
        );
        written.expect("memory takes all");
    }
}
