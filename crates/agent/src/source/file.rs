//! Pods from a file, or from the files of a folder.
//!
//! Kernel events trigger a scan; a slow poll scans in any case, for file systems without events. A scan only reads
//! files that have changed.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::files::{CannotList, Files};
use super::hints::{Hints, Watch};
use super::last_good::LastGood;
use super::look::OpenForWriting;
use super::{POLL_PERIOD, SetSender, Source, SourceId, SourceKind};
use crate::manifest::Problem;
use crate::off_thread::off_thread;

const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long after a scan good texts are written to disk: not while more files may be about to arrive.
const KEPT_AFTER: Duration = Duration::from_millis(100);

/// A source that reads a file, or a folder of files.
#[derive(Clone, Debug)]
pub struct FileSource {
    path: PathBuf,
    node_name: String,
    poll_period: Duration,
    kept_in: Option<PathBuf>,
    is_open_for_writing: OpenForWriting,
}

impl FileSource {
    /// Creates a source for the file or folder at `path`, for the node `node_name`.
    pub fn new(path: impl Into<PathBuf>, node_name: impl Into<String>) -> Self {
        let path = path.into();
        // The path is part of the pods' UIDs: it must not depend on the agent's working directory or on a trailing
        // slash.
        let path: PathBuf = std::path::absolute(&path).unwrap_or(path).components().collect();
        Self {
            path,
            node_name: node_name.into(),
            poll_period: POLL_PERIOD,
            kept_in: None,
            is_open_for_writing: |_| None,
        }
    }

    /// Sets the check that is made for each file before it is read: a file that is open for writing is left alone until
    /// it is closed. Where the check cannot tell, a file that is never closed counts as complete once it has been quiet
    /// for a while.
    #[must_use]
    pub fn ask_for_writers(self, is_open_for_writing: OpenForWriting) -> Self {
        Self { is_open_for_writing, ..self }
    }

    /// Keeps the last good text of each manifest below this folder, so that a broken manifest does no harm to its pod
    /// even if the agent is restarted.
    #[must_use]
    pub fn keep_last_good(self, folder: impl Into<PathBuf>) -> Self {
        Self { kept_in: Some(folder.into()), ..self }
    }

    /// Sets how often to scan if there are no events.
    #[must_use]
    pub fn poll_period(self, poll_period: Duration) -> Self {
        Self { poll_period, ..self }
    }
}

impl Source for FileSource {
    fn id(&self) -> SourceId {
        SourceId::new(SourceKind::File, self.path.to_string_lossy())
    }

    async fn run(self, sets: SetSender) {
        let hints = Hints::new(self.path.clone());
        let id = self.id();
        let kept = self.kept_in.as_ref().map(|folder| LastGood::new(folder, &id.place));
        let mut files = Files::new(self.path.clone(), self.node_name.clone(), kept)
            .ask_for_writers(self.is_open_for_writing);
        let mut watch = Watching::new(self.path.clone(), hints.clone(), self.poll_period);
        let mut due = hints.take(Instant::now());
        let mut sent = None;
        'looks: loop {
            let outcome;
            (files, watch, outcome) = off_thread(move || {
                // Start watching before scanning: changes after the scan then produce events.
                watch.ensure(due.watch_ended);
                let outcome = files.scan(&due, Instant::now());
                (files, watch, outcome)
            })
            .await;
            match outcome {
                Ok(again) => {
                    let set = files.set();
                    if !sent.as_ref().is_some_and(|sent| set.is_same(sent)) {
                        sets.send(set.clone());
                        sent = Some(set);
                    }
                    if let Some(after) = again {
                        hints.look_again(Instant::now() + after);
                    }
                }
                Err(CannotList(issue)) => {
                    let mut problems = files.problems();
                    problems.push(Problem::error(&*id.place, issue));
                    sets.cannot_tell(problems);
                    sent = None;
                }
            }
            let (keep_at, look_at) = (Instant::now() + KEPT_AFTER, Instant::now() + watch.patience());
            loop {
                due = tokio::select! {
                    biased;
                    due = hints.due() => due,
                    () = tokio::time::sleep_until(look_at) => hints.take(Instant::now()),
                    // One at a time: a disk write may take long, and no pod should wait for more than one of them.
                    () = tokio::time::sleep_until(keep_at), if files.has_unkept() => {
                        files = off_thread(move || {
                            files.keep_one();
                            files
                        })
                        .await;
                        continue;
                    }
                };
                continue 'looks;
            }
        }
    }
}

/// The watch, or the next attempt to set it up. An attempt blocks on the disk.
struct Watching {
    path: PathBuf,
    hints: Hints,
    poll_period: Duration,
    watch: Option<Watch>,
    retry: Duration,
    retry_at: Instant,
}

impl Watching {
    fn new(path: PathBuf, hints: Hints, poll_period: Duration) -> Self {
        Self { path, hints, poll_period, watch: None, retry: FIRST_RETRY, retry_at: Instant::now() }
    }

    /// Ensures that the right folder is watched, if it is time for an attempt.
    fn ensure(&mut self, ended: bool) {
        if ended || self.watch.as_ref().is_some_and(|watch| watch.is_stale(&self.path)) {
            self.watch = None;
        }
        if self.watch.is_some() || Instant::now() < self.retry_at {
            return;
        }
        match Watch::start(&self.path, &self.hints) {
            Ok(watch) => {
                self.watch = Some(watch);
                self.retry = FIRST_RETRY;
            }
            Err(error) => {
                // Polling continues, so this is not a problem of the source: pods merely start later.
                tracing::debug!(path = %self.path.display(), %error, "cannot watch these files, polling instead");
                self.retry_at = Instant::now() + self.retry;
                self.retry = (self.retry * 2).min(self.poll_period);
            }
        }
    }

    /// How long to wait for events before scanning in any case.
    fn patience(&self) -> Duration {
        match self.watch {
            Some(_) => self.poll_period,
            None => self.retry_at.saturating_duration_since(Instant::now()).min(self.poll_period),
        }
    }
}

#[cfg(test)]
mod tests;
