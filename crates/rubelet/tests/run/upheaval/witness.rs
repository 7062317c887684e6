//! A thread that watches all processes all the time, and records what must never happen. It asks neither agent nor
//! runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rubelet_testbed::wait;

use super::pods::MARK;

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A process of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) pid: u32,
    pub(super) slot: usize,
    pub(super) version: u32,
    pub(super) container: String,
    /// Its namespace, which is different for each container.
    namespace: PathBuf,
}

/// Returns all container processes of this node.
pub(super) fn look(node: &str) -> Vec<Sighting> {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| sight(node, pid)).collect()
}

/// Reads what a process says about itself. A process that has ended says nothing, even before it has been waited for.
fn sight(node: &str, pid: u32) -> Option<Sighting> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let start = format!("{MARK}={node}/");
    let mark = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(start.as_bytes()))?;
    let mut words = std::str::from_utf8(mark).ok()?.split('/');
    let (slot, version) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).ok()?;
    Some(Sighting { pid, slot, version, container: words.next()?.to_owned(), namespace })
}

/// Finds containers that must not run at the same time: two of the same name in a pod, or of two versions of a pod.
fn doubles(sightings: &[Sighting]) -> Option<String> {
    let mut containers: BTreeMap<(usize, &str), BTreeSet<&PathBuf>> = BTreeMap::new();
    let mut versions: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for sighting in sightings {
        containers.entry((sighting.slot, &sighting.container)).or_default().insert(&sighting.namespace);
        versions.entry(sighting.slot).or_default().insert(sighting.version);
    }
    let container = containers.iter().find(|(_, live)| live.len() > 1);
    let version = versions.iter().find(|(_, live)| live.len() > 1);
    let slot = container.map(|((slot, _), _)| *slot).or(version.map(|(slot, _)| *slot))?;
    let all: Vec<&Sighting> = sightings.iter().filter(|sighting| sighting.slot == slot).collect();
    Some(format!("{all:?}"))
}

#[derive(Debug, Default)]
struct Notes {
    doubles: Vec<String>,
    /// The newest version of each pod that was ever seen.
    newest: BTreeMap<usize, u32>,
    looks: u64,
}

/// The witness. Dropping it stops it.
pub(super) struct Witness {
    notes: Arc<Mutex<Notes>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    pub(super) fn start(node: String) -> Self {
        let notes: Arc<Mutex<Notes>> = Arc::default();
        let is_over = Arc::new(AtomicBool::new(false));
        let (taken, over) = (notes.clone(), is_over.clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let sightings = look(&node);
                // Reading takes a while, during which one container may have ended and the other started. A process
                // that is still alive now was alive all the time.
                let lived: Vec<Sighting> = match doubles(&sightings) {
                    Some(_) => sightings
                        .iter()
                        .filter(|seen| sight(&node, seen.pid).as_ref() == Some(*seen))
                        .cloned()
                        .collect(),
                    None => Vec::new(),
                };
                taken.lock().note(&sightings, doubles(&lived));
                wait::until(BETWEEN_LOOKS, || None::<()>);
            }
        });
        Self { notes, is_over, thread: Some(thread) }
    }

    /// Returns what has happened that must never happen.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.notes.lock().doubles.clone()
    }

    /// Returns how many times it has read the processes.
    pub(super) fn looks(&self) -> u64 {
        self.notes.lock().looks
    }

    /// Whether this version of a pod ever ran.
    pub(super) fn has_seen(&self, slot: usize, version: u32) -> bool {
        self.notes.lock().newest.get(&slot).is_some_and(|newest| *newest >= version)
    }
}

impl Notes {
    fn note(&mut self, sightings: &[Sighting], double: Option<String>) {
        self.looks += 1;
        self.doubles.extend(double);
        for sighting in sightings {
            let newest = self.newest.entry(sighting.slot).or_default();
            *newest = sighting.version.max(*newest);
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, its message has been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_knows_what_must_not_be() {
        let seen = |slot, version, container: &str, namespace: &str| Sighting {
            pid: 1,
            slot,
            version,
            container: container.to_owned(),
            namespace: namespace.into(),
        };
        let fine =
            [seen(1, 1, "a", "n1"), seen(1, 1, "a", "n1"), seen(1, 1, "b", "n2"), seen(2, 7, "a", "n3")];
        assert_eq!(doubles(&fine), None);
        assert!(doubles(&[seen(1, 1, "a", "n1"), seen(1, 1, "a", "n2")]).is_some(), "two of one name");
        assert!(doubles(&[seen(1, 1, "a", "n1"), seen(1, 2, "b", "n2")]).is_some(), "two versions");
    }
}
