//! The traces that containers leave where they can be seen from outside: a file that shows when they started, and a
//! process with a unique command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rustix::process::{Pid, Signal};

/// Longer than anything that ever happens takes.
const PATIENCE: Duration = Duration::from_secs(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The traces of the pods of one side.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The folder that each container sees as `/place`.
    place: PathBuf,
    /// The arguments of the sleep: nobody else sleeps for this long, and then for that long.
    sleep: String,
}

/// The moment at which a container started, by the clock of the filesystem: up to one tick of the kernel too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(SystemTime);

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "compared with the times of files")]
    pub(super) fn now() -> Self {
        Self(SystemTime::now())
    }

    /// The time from then until this moment.
    pub(super) fn since(self, then: Self) -> Duration {
        self.0.duration_since(then.0).unwrap_or_default()
    }
}

impl Marks {
    pub(super) fn new(side: u32, place: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(place)?;
        Ok(Self { place: place.to_owned(), sleep: format!("{side}{:09}", std::process::id()) })
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// The script that a pod's container runs: its first instructions create or touch the pod's file. It ends when
    /// asked to: even without any grace period, a container has two seconds for that, as under a kubelet.
    pub(super) fn script(&self, number: usize) -> String {
        format!(r#": > /place/{number}; trap "exit 0" TERM; sleep {} {number} & wait"#, self.sleep)
    }

    /// When the container of a pod last started, if ever.
    pub(super) fn last(&self, number: usize) -> Option<Moment> {
        let file = std::fs::metadata(self.place.join(number.to_string())).ok()?;
        file.modified().ok().map(Moment)
    }

    /// Waits until the container of a pod starts, for the first time or again after `last`.
    pub(super) async fn begun(&self, number: usize, last: Option<Moment>) -> anyhow::Result<Moment> {
        let begun = until(|| self.last(number).filter(|now| last.is_none_or(|last| *now > last))).await;
        begun.with_context(|| format!("the container of pod {number} never begins"))
    }

    /// Waits until the containers of all these pods have started; returns when the last of them did.
    pub(super) async fn all_begun(&self, numbers: impl Iterator<Item = usize>) -> anyhow::Result<Moment> {
        let mut last = Moment(SystemTime::UNIX_EPOCH);
        for number in numbers {
            last = last.max(self.begun(number, None).await?);
        }
        Ok(last)
    }

    /// The processes of all running containers, by the number of their pod.
    pub(super) fn processes(&self) -> BTreeMap<usize, Vec<Pid>> {
        let mut found: BTreeMap<usize, Vec<Pid>> = BTreeMap::new();
        let start = format!("sleep\0{}\0", self.sleep);
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let number = line.strip_prefix(&start).and_then(|rest| rest.trim_end_matches('\0').parse().ok());
            if let (Some(number), Some(pid)) = (number, Pid::from_raw(pid)) {
                found.entry(number).or_default().push(pid);
            }
        }
        found
    }

    /// The process of the container of a pod.
    pub(super) async fn process(&self, number: usize) -> anyhow::Result<Pid> {
        let only = until(|| match self.processes().get(&number).map(Vec::as_slice) {
            Some([only]) => Some(*only),
            _ => None,
        });
        only.await.with_context(|| format!("pod {number} does not have one process"))
    }

    /// Waits until no container of this side runs; returns the time since that moment.
    pub(super) async fn gone(&self, since: Moment) -> anyhow::Result<Duration> {
        let mut left: Vec<Pid> = self.processes().into_values().flatten().collect();
        let gone = until(|| {
            // Zombies count as ended.
            left.retain(|pid| is_alive(*pid));
            left.is_empty().then(Moment::now)
        });
        let gone = gone.await.context("some containers never end")?;
        // What the first process of a container leaves behind ends shortly after it; a container that starts again
        // stays.
        let left = until(|| self.processes().is_empty().then_some(()));
        left.await.context("containers begin while all should end")?;
        Ok(gone.since(since))
    }
}

fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}

pub(super) fn kill(pid: Pid) -> anyhow::Result<()> {
    rustix::process::kill_process(pid, Signal::KILL).context("the container has ended already")
}

/// Calls `look` until it returns something.
pub(super) async fn until<T>(look: impl FnMut() -> Option<T>) -> Option<T> {
    until_every(BETWEEN_LOOKS, look).await
}

/// Calls `look` at this interval until it returns something.
pub(super) async fn until_every<T>(pause: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if tokio::time::Instant::now() > deadline {
            return None;
        }
        tokio::time::sleep(pause).await;
    }
}
