//! Pods from a file, or from the files of a folder.
//!
//! The kernel's events say when to look; a slow poll looks in any case, for file systems that have no events. A look reads
//! only files that changed.

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

/// When good texts are put on disk after a look: not while more files may be on their way.
const KEPT_AFTER: Duration = Duration::from_millis(100);

/// A file, or a folder of files.
#[derive(Clone, Debug)]
pub struct FileSource {
    path: PathBuf,
    node_name: String,
    poll_period: Duration,
    kept_in: Option<PathBuf>,
    is_open_for_writing: OpenForWriting,
}

impl FileSource {
    /// The file or folder at `path`, for the node `node_name`.
    pub fn new(path: impl Into<PathBuf>, node_name: impl Into<String>) -> Self {
        let path = path.into();
        // The path is part of the pods' UIDs: it should be the same wherever the agent is started, and with or without
        // a slash at its end.
        let path: PathBuf = std::path::absolute(&path).unwrap_or(path).components().collect();
        Self {
            path,
            node_name: node_name.into(),
            poll_period: POLL_PERIOD,
            kept_in: None,
            is_open_for_writing: |_| None,
        }
    }

    /// Asks this about each file before it is read: one that somebody has open for writing is left alone until it is closed.
    /// Where nobody can say, a file that is never closed is complete when it was quiet for a while.
    #[must_use]
    pub fn ask_for_writers(self, is_open_for_writing: OpenForWriting) -> Self {
        Self { is_open_for_writing, ..self }
    }

    /// Keeps the last good text of each manifest below this folder, so that a manifest that is spoilt does no harm to its
    /// pod even if the agent is restarted.
    #[must_use]
    pub fn keep_last_good(self, folder: impl Into<PathBuf>) -> Self {
        Self { kept_in: Some(folder.into()), ..self }
    }

    /// Looks this often when nothing is heard.
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
                // Watch before looking: what changes after the look is then heard.
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
                    // One at a time: a disk may take long, and no pod should wait for more than one of them.
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

/// The watch, or the next try to have one. Trying blocks on the disk.
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

    /// Makes sure that the right folder is watched, if it is time to try.
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
                // Polling goes on, so this is not a problem of the source: pods only start later.
                tracing::debug!(path = %self.path.display(), %error, "cannot watch these files, polling instead");
                self.retry_at = Instant::now() + self.retry;
                self.retry = (self.retry * 2).min(self.poll_period);
            }
        }
    }

    /// How long to wait for events before looking in any case.
    fn patience(&self) -> Duration {
        match self.watch {
            Some(_) => self.poll_period,
            None => self.retry_at.saturating_duration_since(Instant::now()).min(self.poll_period),
        }
    }
}

#[cfg(test)]
mod tests;
