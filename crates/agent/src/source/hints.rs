//! File events from the kernel: they never say what is in the files, only when it is time to scan.
//!
//! A file that is being written is left alone until its writer closes it. If no such event arrives (a writer that keeps
//! the file open, a file system without events), it is left alone until it has been quiet for a while. Whether it is
//! closed by then is not known here; that is checked before the file is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::files::concerns;

/// How long a file must be quiet before it is read although no event said that it is complete.
pub(super) const QUIET: Duration = Duration::from_millis(300);

/// The state shared between the thread that receives kernel events and the task that scans files.
#[derive(Clone, Debug)]
pub(super) struct Hints(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    state: Mutex<State>,
    changed: Notify,
}

/// The recorded events. Bounded by the number of files.
#[derive(Debug, Default)]
struct State {
    is_due: bool,
    /// The watched folder is gone, or events were lost.
    watch_ended: bool,
    writing: BTreeMap<PathBuf, Instant>,
    touched: BTreeSet<PathBuf>,
    again_at: Option<Instant>,
}

/// What to do in the scan that is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Files to leave alone.
    pub(super) writing: BTreeSet<PathBuf>,
    /// Files to read even if they look unchanged: a file that is written twice within one tick of the file system's
    /// clock keeps its times and perhaps its size.
    pub(super) touched: BTreeSet<PathBuf>,
    /// Whether the watch must be recreated.
    pub(super) watch_ended: bool,
}

impl Hints {
    /// Creates hints about the files of `root`, or the file `root`.
    pub(super) fn new(root: PathBuf) -> Self {
        Self(Arc::new(Shared { root, state: Mutex::default(), changed: Notify::new() }))
    }

    /// Records an event from the kernel.
    pub(super) fn note(&self, event: &Event, now: Instant) {
        let mut state = self.0.state.lock();
        let visible = || event.paths.iter().filter(|path| concerns(&self.0.root, path));
        match event.kind {
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) => {
                state.writing.extend(visible().map(|path| (path.clone(), now)));
            }
            EventKind::Access(AccessKind::Close(AccessMode::Write)) | EventKind::Remove(_) => {
                state.writing.retain(|path, _| !event.paths.contains(path));
                state.is_due |= visible().next().is_some();
            }
            // Hidden files count as well: visible names may lead through them.
            EventKind::Modify(ModifyKind::Name(_)) => {
                state.writing.retain(|path, _| !event.paths.contains(path));
                state.is_due = true;
            }
            EventKind::Modify(ModifyKind::Metadata(_)) => state.is_due = true,
            // Reads are no news; the agent itself reads these files.
            EventKind::Any
            | EventKind::Other
            | EventKind::Access(_)
            | EventKind::Modify(ModifyKind::Other) => {
                if !event.need_rescan() {
                    return;
                }
            }
        }
        state.touched.extend(visible().cloned());
        if event.need_rescan() {
            state.is_due = true;
            state.watch_ended = true;
        }
        drop(state);
        self.0.changed.notify_one();
    }

    fn watch_failed(&self) {
        self.0.state.lock().watch_ended = true;
        self.0.changed.notify_one();
    }

    /// Schedules a scan for that time.
    pub(super) fn look_again(&self, at: Instant) {
        self.0.state.lock().again_at = Some(at);
        self.0.changed.notify_one();
    }

    /// Starts a scan now, whatever events there were.
    pub(super) fn take(&self, now: Instant) -> Due {
        self.0.state.lock().take(now)
    }

    /// Waits until a scan is due. Cancel safe.
    pub(super) async fn due(&self) -> Due {
        loop {
            let changed = self.0.changed.notified();
            let until = match self.0.state.lock().take_due(Instant::now()) {
                Ok(due) => return due,
                Err(until) => until,
            };
            match until {
                Some(until) => {
                    tokio::select! { () = changed => {}, () = tokio::time::sleep_until(until) => {} }
                }
                None => changed.await,
            }
        }
    }
}

impl State {
    /// Returns what is due now, or when to check again.
    fn take_due(&mut self, now: Instant) -> Result<Due, Option<Instant>> {
        let next = self.writing.values().map(|since| *since + QUIET).chain(self.again_at).min();
        if self.is_due || self.watch_ended || next.is_some_and(|next| next <= now) {
            return Ok(self.take(now));
        }
        Err(next)
    }

    fn take(&mut self, now: Instant) -> Due {
        self.is_due = false;
        self.again_at = None;
        self.writing.retain(|_, since| *since + QUIET > now);
        let writing: BTreeSet<PathBuf> = self.writing.keys().cloned().collect();
        let (still_written, touched) =
            std::mem::take(&mut self.touched).into_iter().partition(|path| writing.contains(path));
        self.touched = still_written;
        Due { writing, touched, watch_ended: std::mem::take(&mut self.watch_ended) }
    }
}

/// A watch for kernel events. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    _watcher: RecommendedWatcher,
    folder: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Watch {
    /// Starts to watch the files of `root`, or the file `root`. For a file, and for a path that does not exist yet, the
    /// parent folder is watched: most programs replace a file instead of changing it. The parent is also watched for a
    /// link to a folder, because such a link is replaced to lead elsewhere.
    pub(super) fn start(root: &Path, hints: &Hints) -> notify::Result<Self> {
        let folder = folder_to_watch(root);
        // Read before watching: if another folder takes its place in between, the watch is found to be stale.
        let identity = identity(&folder);
        let above = root.parent().filter(|_| folder == root && root.is_symlink());
        let (hints, place, watched) = (hints.clone(), root.to_path_buf(), folder.clone());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) => {
                let moves =
                    matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
                if moves && event.paths.contains(&watched) {
                    hints.watch_failed();
                }
                let is_ours = if place == watched {
                    event.paths.iter().any(|path| path.starts_with(&place))
                } else {
                    // A link may lead through any other link.
                    event.paths.contains(&place) || (moves && place.is_symlink())
                };
                if is_ours || event.need_rescan() {
                    hints.note(&event, Instant::now());
                }
            }
            Err(_) => hints.watch_failed(),
        })?;
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        if let Some(above) = above {
            watcher.watch(above, RecursiveMode::NonRecursive)?;
        }
        Ok(Self { _watcher: watcher, folder, identity })
    }

    /// Whether another folder has taken the place of the watched one.
    pub(super) fn is_stale(&self, root: &Path) -> bool {
        folder_to_watch(root) != self.folder || identity(&self.folder) != self.identity
    }
}

fn folder_to_watch(root: &Path) -> PathBuf {
    if root.is_dir() { root.to_path_buf() } else { root.parent().unwrap_or(Path::new("/")).to_path_buf() }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
