//! A node on which something happens all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rubelet_testbed::wait;

use super::ground::{Ground, Inspector};
use super::pods::{Kind, Version};
use super::witness::{Witness, look};
use crate::node::Node;

/// The maximum number of pods.
const SLOTS: usize = 20;
/// How long pods may take to reach the wanted state once nothing is killed any more.
const PATIENCE: Duration = Duration::from_secs(180);

/// The exit code of an agent that cannot reach its runtime.
const NO_RUNTIME: i32 = 3;

/// Keeps crash loops fast: each restart is a chance for something to go wrong.
const CONFIG: &str = "crashLoopBackOff: { maxContainerRestartPeriod: 1s }\n";

#[derive(Debug, Default)]
struct Tally {
    written: u32,
    removed: u32,
    processes_killed: u32,
    agents_killed: u32,
    runtimes_killed: u32,
    /// Agents that were restarted because their runtime was killed while they started.
    agents_revived: u32,
}

pub(super) struct Churn {
    // The order of these fields matters, since they are dropped in it: the witness before the node, the node before the
    // runtime of its pods.
    witness: Witness,
    inspector: Inspector,
    node: Node,
    ground: Ground,
    random: fastrand::Rng,
    seed: u64,
    /// The wanted version in each slot; none where no pod is wanted.
    wanted: BTreeMap<usize, u32>,
    versions: u32,
    /// Every sandbox and container that was ever listed.
    ids: BTreeSet<String>,
    tally: Tally,
}

impl Churn {
    pub(super) fn start(ground: Ground, seed: u64) -> Option<Self> {
        let mut node = Node::new()?;
        node.on(ground.endpoint());
        node.configure(CONFIG);
        node.start_agent();
        let mut churn = Self {
            witness: Witness::start(node.seconds(0)),
            inspector: Inspector::new(&ground, &node),
            node,
            ground,
            random: fastrand::Rng::with_seed(seed),
            seed,
            wanted: BTreeMap::new(),
            versions: 0,
            ids: BTreeSet::new(),
            tally: Tally::default(),
        };
        for slot in 0..SLOTS {
            churn.write(slot);
        }
        Some(churn)
    }

    pub(super) fn tally(&self) -> String {
        format!("{:?}, {} looks at all processes", self.tally, self.witness.looks())
    }

    /// Changes some pods, kills a process at a random moment, changes some more pods, and restarts what was killed.
    pub(super) fn disturb(&mut self) {
        self.revive();
        self.change_some();
        pause(self.random.u64(..400));
        let apart = self.ground.is_apart();
        let (agent, runtime) = match self.random.u8(..5) {
            0 | 1 if apart => (false, true),
            2 if apart => (true, true),
            _ => (true, false),
        };
        if agent {
            self.revive();
            self.node.end_agent("-KILL");
            self.tally.agents_killed += 1;
        }
        if runtime {
            self.ground.kill();
            self.tally.runtimes_killed += 1;
        }
        self.change_some();
        pause(self.random.u64(..200));
        // An agent does not start without a runtime.
        if runtime {
            self.ground.come_back();
        }
        if agent {
            self.node.spawn_agent();
        }
        self.check();
    }

    /// Acts as a service manager: an agent that found no runtime when it started has reported that and ended.
    fn revive(&mut self) {
        if let Some(code) = self.node.agent_ended() {
            assert_eq!(code, NO_RUNTIME, "the agent ended by itself\n{}", self.node.said());
            self.node.spawn_agent();
            self.tally.agents_revived += 1;
        }
    }

    fn change_some(&mut self) {
        for _ in 0..self.random.u8(..3) {
            let slot = self.random.usize(..SLOTS);
            match self.random.u8(..4) {
                0 => self.remove(slot),
                1 => self.kill_process(),
                _ => self.write(slot),
            }
        }
    }

    fn write(&mut self, slot: usize) {
        self.versions += 1;
        self.tally.written += 1;
        let number = self.node.seconds(0);
        let version = Version { node: &number, slot, version: self.versions, image: self.ground.image() };
        self.node.write(&file(slot), &version.manifest());
        self.wanted.insert(slot, self.versions);
    }

    fn remove(&mut self, slot: usize) {
        if self.wanted.remove(&slot).is_some() {
            self.tally.removed += 1;
            self.node.remove(&file(slot));
        }
    }

    fn kill_process(&mut self) {
        let running = look(&self.node.seconds(0));
        if let Some(one) = self.random.choice(running) {
            self.tally.processes_killed += 1;
            // It may have ended since it was seen.
            let _ = std::process::Command::new("kill").args(["-9", &one.pid.to_string()]).output();
        }
    }

    /// Checks that nothing forbidden has happened.
    fn check(&mut self) {
        let seed = self.seed;
        assert_eq!(self.witness.complaints(), Vec::<String>::new(), "seed {seed}\n{}", self.node.said());
        for found in self.inspector.look().unwrap_or_default() {
            let mut names = BTreeSet::new();
            let double = found.running.iter().find(|container| !names.insert(*container));
            assert_eq!(double, None, "two of one name, seed {seed}: {found:#?}\n{}", self.node.said());
            self.ids.extend(found.ids);
        }
    }

    /// Waits until every wanted pod runs in its latest version, and nothing else runs.
    pub(super) fn settle(&mut self) {
        let number = self.node.seconds(0);
        let problem = |churn: &Self| {
            let sightings = look(&number);
            let stale = sightings.iter().find(|seen| churn.wanted.get(&seen.slot) != Some(&seen.version));
            if let Some(stale) = stale {
                return Some(format!("{stale:?} should not run; wanted {:?}", churn.wanted.get(&stale.slot)));
            }
            for (&slot, &version) in &churn.wanted {
                let runs =
                    |name: &&str| sightings.iter().any(|seen| seen.slot == slot && seen.container == **name);
                if let Some(lost) = Kind::of(slot).lasting().into_iter().find(|name| !runs(name)) {
                    return Some(format!("{lost} of pod-{slot} should run in version {version}"));
                }
                if !churn.witness.has_seen(slot, version) {
                    return Some(format!("version {version} of pod-{slot} never ran"));
                }
            }
            None
        };
        let settled = wait::until(PATIENCE, || {
            self.revive();
            problem(self).is_none().then_some(())
        });
        if settled.is_none() {
            let problem = problem(self).unwrap_or_default();
            let pods = String::from_utf8_lossy(&self.node.ask(&["ps"]).stdout).into_owned();
            panic!("{problem}, seed {}\n{pods}\n{}", self.seed, self.node.said());
        }
        self.check();
    }

    /// If the folders stay, the doctor says which calls hang.
    fn wait_for_folders_to_go(&self) {
        let entries = |name: &str| self.node.path(name).read_dir().into_iter().flatten().flatten();
        let left = || -> Vec<PathBuf> {
            entries("data/pods").chain(entries("logs")).map(|entry| entry.path()).collect()
        };
        if wait::until(crate::node::PATIENCE, || left().is_empty().then_some(())).is_none() {
            let doctor = self.node.ask(&["doctor"]);
            let (left, doctor) = (left(), String::from_utf8_lossy(&doctor.stdout));
            panic!("seed {}: {left:#?} are left\n{doctor}\n{}", self.seed, self.node.said());
        }
    }

    /// Removes all pods, and checks what they left behind: processes, folders, mounts, control groups, and entries in
    /// the runtime.
    pub(super) fn leave_nothing(mut self) {
        for slot in 0..SLOTS {
            self.remove(slot);
        }
        let number = self.node.seconds(0);
        self.node.until("the end of all processes", || look(&number).is_empty());
        self.wait_for_folders_to_go();
        let mut left = None;
        wait::until(PATIENCE, || {
            left = self.inspector.look();
            left.as_ref().is_some_and(Vec::is_empty).then_some(())
        });
        let nothing = left.as_ref().is_some_and(Vec::is_empty);
        assert!(nothing, "the runtime still knows {left:#?}, seed {}\n{}", self.seed, self.node.said());
        self.node.assert_clean();
        self.check();
        assert_eq!(mounts_below(&self.node.path("data/pods")), Vec::<String>::new());
        let mut groups: Vec<PathBuf> = control_groups(&self.ids);
        if matches!(self.ground, Ground::Containerd(_)) {
            // A containerd that is killed while it creates a container forgets its groups. They must be empty: others
            // cannot be removed.
            groups.retain(|group| fs::remove_dir(group).is_err());
        }
        assert_eq!(groups, Vec::<PathBuf>::new(), "control groups are left, seed {}", self.seed);
        if let Ground::Beside(runtime) = &self.ground {
            assert_eq!(runtime.shims(), Vec::<String>::new(), "shims are left, seed {}", self.seed);
            assert_eq!(runtime.mounts(), Vec::<PathBuf>::new(), "mounts are left, seed {}", self.seed);
        }
        println!(
            "nothing is left of {} sandboxes and containers, seed {}: {}",
            self.ids.len(),
            self.seed,
            self.tally()
        );
    }
}

fn file(slot: usize) -> String {
    format!("pod-{slot}.yaml")
}

/// Lets other threads work for this many milliseconds.
pub(super) fn pause(milliseconds: u64) {
    wait::until(Duration::from_millis(milliseconds), || None::<()>);
}

fn mounts_below(folder: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a mount table");
    let folder = folder.to_string_lossy().into_owned();
    let point = |line: &str| line.split(' ').nth(4).map(str::to_owned);
    table.lines().filter_map(point).filter(|point| point.starts_with(&folder)).collect()
}

/// Returns the control groups that are named after one of these ids.
fn control_groups(ids: &BTreeSet<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if ids.contains(&name) {
                found.push(entry.path());
            }
            folders.push(entry.path());
        }
    }
    found
}
