//! Pods of many kinds, in each of which every process says to which container it belongs.

use std::fmt::Write as _;

/// A variable in the environment of every process: `node/slot/version/container`.
pub(super) const MARK: &str = "RUBELET_UPHEAVAL";

/// The kind of a pod. A slot keeps its kind through all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One container that ends when asked to.
    Plain,
    /// One container that does not.
    Stubborn,
    /// One container that fails again and again.
    Crashing,
    /// One container, after another one that must succeed first.
    Initialised,
    /// One container, with a sidecar that starts before and ends after it.
    Accompanied,
    /// Two containers that share a folder in memory.
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

    /// The names and programs of the init containers, the sidecars and the regular containers.
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

    /// The containers that run as long as the pod does; none if they fail again and again.
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
