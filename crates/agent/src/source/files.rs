//! The contents of the files of a folder, or of one file. A file is read again only when it has changed, and a broken
//! file counts as its last good version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hints::{Due, QUIET};
use super::holders::{Claim, Claimant, Holders, key};
use super::last_good::LastGood;
use super::look::{Look, OpenForWriting, Version, dangling_link, look};
use super::{SourceKind, SourceSet};
use crate::clock;
use crate::manifest::{Issue, Manifest, ObjectKey, Objects, Origin, Problem, load};

/// How long a file must be missing to count as removed: some editors move a file away before they write the new
/// version.
const GONE_AFTER: Duration = Duration::from_millis(100);

/// How long a file may be open for writing before that is reported.
const LONG_WRITTEN: Duration = Duration::from_secs(5);

/// How soon to check again whether a file is still open for writing. Its last writer may be just closing it: the event
/// arrives a moment before the close takes effect.
const SOON: Duration = Duration::from_millis(2);

/// The name, among the kept texts of manifests, of the record that says which file holds what. No path is ever named
/// so.
const HOLDERS: &str = "holders";

/// The state of a file source. Its methods block on the disk.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    node_name: String,
    kept: Option<LastGood>,
    is_open_for_writing: OpenForWriting,
    files: BTreeMap<PathBuf, KnownFile>,
    holders: Holders,
    has_looked: bool,
    /// Whether there is nothing at the path.
    is_missing: bool,
    /// What has not been written to disk yet, by place: good texts, and the record of holders.
    unkept: BTreeMap<String, Vec<u8>>,
}

/// Why the files cannot be listed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CannotList(pub(super) Issue);

#[derive(Debug, Default)]
struct KnownFile {
    version: Option<Version>,
    /// Whether that version was read twice. Until then, the file may have been written again within the clock tick in
    /// which it was read.
    is_settled: bool,
    missing_since: Option<Instant>,
    /// A hash of the text that was read: the same text need not be parsed again.
    text: Option<u64>,
    /// The last usable contents.
    good: Option<Manifest>,
    /// What is wrong with the file now; or the remarks on the good version, if the file contains that.
    problems: Vec<Problem>,
    doubt: Option<Doubt>,
    /// Since when it has been open for writing.
    written_since: Option<Instant>,
}

/// Something that may be wrong with a file, or may only be the effect of a rewrite in progress.
#[derive(Debug)]
struct Doubt {
    since: Instant,
    /// How long to wait before it is reported.
    patience: Duration,
    problems: Vec<Problem>,
}

impl Files {
    pub(super) fn new(root: PathBuf, node_name: String, kept: Option<LastGood>) -> Self {
        Self {
            root,
            node_name,
            kept,
            is_open_for_writing: |_| None,
            files: BTreeMap::new(),
            holders: Holders::default(),
            has_looked: false,
            is_missing: false,
            unkept: BTreeMap::new(),
        }
    }

    /// Sets the check that is made for each file before it is read.
    pub(super) fn ask_for_writers(self, is_open_for_writing: OpenForWriting) -> Self {
        Self { is_open_for_writing, ..self }
    }

    /// Scans all files except those that are open for writing, which keep their previous result. Returns how soon to
    /// scan again, if that is worthwhile.
    pub(super) fn scan(&mut self, due: &Due, now: Instant) -> Result<Option<Duration>, CannotList> {
        let is_open_for_writing = self.is_open_for_writing;
        self.scan_with(|path, known| look(path, known, is_open_for_writing), due, now)
    }

    fn scan_with(
        &mut self,
        look: impl Fn(&Path, Option<Version>) -> Look,
        due: &Due,
        now: Instant,
    ) -> Result<Option<Duration>, CannotList> {
        let listed = self.list()?;
        self.is_missing = listed.is_none();
        let mut present = listed.unwrap_or_default();
        let is_first = self.files.is_empty();
        let mut again = BTreeSet::new();
        let mut arrived = BTreeSet::new();
        for path in present.clone() {
            if due.writing.contains(&path) {
                continue;
            }
            let known = self.files.entry(path.clone()).or_default();
            let trusted = known.version.filter(|_| known.is_settled && !due.touched.contains(&path));
            let written_since = known.written_since.take();
            match look(&path, trusted) {
                Look::Unchanged => {}
                Look::Gone => {
                    present.remove(&path);
                }
                Look::InMotion => {
                    again.insert(QUIET);
                    known.recall(&origin(&path, &self.node_name), self.kept.as_ref());
                }
                Look::BeingWritten => {
                    let origin = origin(&path, &self.node_name);
                    let since = written_since.unwrap_or(now);
                    again.insert(known.wait_for_writers(since, &origin, now));
                    known.recall(&origin, self.kept.as_ref());
                }
                Look::Read(version, text) => {
                    known.is_settled = known.version == Some(version);
                    known.version = Some(version);
                    let before: BTreeSet<ObjectKey> = known.pods().collect();
                    if let Some(good) = known.take(text, &self.node_name, &path, self.kept.as_ref(), now) {
                        self.unkept.insert(place(&path), good);
                        arrived.extend(known.pods().filter(|pod| !before.contains(pod)));
                    }
                }
            }
        }
        // The first scan reports everything: a caller that asks only once must not be told that all is well.
        let is_first_look = !std::mem::replace(&mut self.has_looked, true);
        let doubtful = self.files.values_mut().filter_map(|file| file.decide(is_first_look, now)).min();
        let known = self.files.len();
        let missing = self.drop_missing(&present, &arrived, now);
        if is_first || self.files.len() < known {
            let paths = present.iter().chain(self.files.keys()).map(|path| place(path));
            let places: BTreeSet<String> = paths.chain([HOLDERS.to_owned()]).collect();
            self.unkept.retain(|place, _| places.contains(place));
            self.kept.iter().for_each(|kept| kept.forget_all_but(places.iter().map(String::as_str)));
        }
        self.choose_holders(is_first_look);
        Ok(again.into_iter().chain(missing).chain(doubtful).min())
    }

    /// Whether there is something to keep that has not been written to disk yet.
    pub(super) fn has_unkept(&self) -> bool {
        !self.unkept.is_empty()
    }

    /// Writes one of the texts of the last scans to disk. This is not part of a scan, so that no pod waits for the
    /// disk.
    pub(super) fn keep_one(&mut self) {
        if let Some((place, text)) = self.unkept.pop_first() {
            self.kept.iter().for_each(|kept| kept.keep(&place, &text));
        }
    }

    /// Forgets the files that are gone for good. A file that has moved is forgotten at once: one of its pods has just
    /// `arrived` in another file (a file that was there before is a copy). Returns how soon to decide about files that
    /// may reappear.
    fn drop_missing(
        &mut self,
        present: &BTreeSet<PathBuf>,
        arrived: &BTreeSet<ObjectKey>,
        now: Instant,
    ) -> Option<Duration> {
        let mut undecided = None;
        self.files.retain(|path, file| {
            if present.contains(path) {
                file.missing_since = None;
                return true;
            }
            let since = *file.missing_since.get_or_insert(now);
            let left = GONE_AFTER.saturating_sub(now.duration_since(since));
            let has_moved = file.pods().any(|pod| arrived.contains(&pod));
            if left.is_zero() || has_moved || file.good.is_none() {
                return false;
            }
            undecided = Some(undecided.map_or(left, |other: Duration| other.min(left)));
            true
        });
        undecided
    }

    fn choose_holders(&mut self, is_first_look: bool) {
        if is_first_look {
            let kept = self.kept.as_ref().and_then(|kept| kept.recall(HOLDERS));
            self.holders = kept.map(|kept| Holders::read(&kept)).unwrap_or_default();
        }
        let holders = self.holders.among(&self.claimants().collect::<Vec<_>>());
        if holders != self.holders {
            self.unkept.insert(HOLDERS.to_owned(), holders.written());
            self.holders = holders;
        }
    }

    fn claimants(&self) -> impl Iterator<Item = Claimant<'_>> {
        self.files.iter().flat_map(|(path, file)| {
            file.good.iter().flat_map(Claim::all_of).map(|claims| (path.as_path(), claims))
        })
    }

    /// Returns everything that is known, and everything that is wrong.
    pub(super) fn set(&self) -> SourceSet {
        let mut set = SourceSet { problems: self.problems(), ..SourceSet::default() };
        let mut objects = Objects::default();
        for (path, file) in &self.files {
            let Some(manifest) = &file.good else { continue };
            let holds = |claims: &[Claim]| self.holders.holds(path, claims);
            set.pods.extend(manifest.pods.iter().filter(|pod| holds(&Claim::of_pod(pod))).cloned());
            let maps = manifest.objects.config_maps.iter();
            let maps = maps.filter(|(key, _)| holds(&[Claim::ConfigMap((*key).clone())]));
            objects.config_maps.extend(maps.map(|(key, map)| (key.clone(), Arc::clone(map))));
            let secrets = manifest.objects.secrets.iter();
            let secrets = secrets.filter(|(key, _)| holds(&[Claim::Secret((*key).clone())]));
            objects.secrets.extend(secrets.map(|(key, secret)| (key.clone(), Arc::clone(secret))));
        }
        set.objects = Arc::new(objects);
        set
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let of_files = self.files.values().flat_map(|file| file.problems.iter().cloned());
        let doubles = self.claimants().filter_map(|(path, claims)| self.holders.problem(path, &claims));
        // Not while files may only have been moved for a moment.
        let is_gone = self.is_missing && self.files.is_empty();
        let missing = is_gone.then(|| Problem::warning(place(&self.root), Issue::Missing));
        of_files.chain(doubles).chain(missing).collect()
    }

    /// Lists the files; `None` if there is nothing at the path.
    fn list(&self) -> Result<Option<BTreeSet<PathBuf>>, CannotList> {
        let unreadable = |error: io::Error| CannotList(Issue::Unreadable(error.to_string()));
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_file() => Ok(Some(BTreeSet::from([self.root.clone()]))),
            Ok(metadata) if metadata.is_dir() => {
                let mut files = BTreeSet::new();
                for entry in fs::read_dir(&self.root).map_err(unreadable)? {
                    let path = entry.map_err(unreadable)?.path();
                    if concerns(&self.root, &path) && !path.is_dir() {
                        files.insert(path);
                    }
                }
                Ok(Some(files))
            }
            Ok(_) => Err(CannotList(Issue::NotAFile)),
            // A path that does not exist has no pods. But a disk that is not mounted is no reason to end any.
            Err(error) if error.kind() == ErrorKind::NotFound && !leads_nowhere(&self.root) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(CannotList(dangling_link())),
            Err(error) => Err(unreadable(error)),
        }
    }
}

impl KnownFile {
    fn pods(&self) -> impl Iterator<Item = ObjectKey> {
        self.good.iter().flat_map(|manifest| manifest.pods.iter()).map(|pod| key(pod))
    }

    /// Accepts as a fact what has been wrong for long enough. Returns how soon that is decided for the rest.
    fn decide(&mut self, is_first_look: bool, now: Instant) -> Option<Duration> {
        let doubt = self.doubt.take()?;
        let left = doubt.patience.saturating_sub(now.duration_since(doubt.since));
        if left.is_zero() || is_first_look {
            self.problems = doubt.problems;
            return None;
        }
        self.doubt = Some(doubt);
        Some(left)
    }

    /// Handles a file that has been open for writing since `since`. Returns how soon to check again: after the same
    /// time once more, so that a writer that never closes it costs little.
    fn wait_for_writers(&mut self, since: Instant, origin: &Origin, now: Instant) -> Duration {
        self.written_since = Some(since);
        // The version that was read last is not the one that will be there once the writer is done.
        self.is_settled = false;
        self.text = None;
        let problems = vec![Problem::error(origin.place.as_str(), Issue::BeingWritten)];
        self.doubt = Some(Doubt { since, patience: LONG_WRITTEN, problems })
            .filter(|doubt| doubt.problems != self.problems);
        SOON.max(now.duration_since(since))
    }

    /// Applies what was read; returns the text if it is new and good.
    fn take(
        &mut self,
        text: Result<Vec<u8>, Issue>,
        node_name: &str,
        path: &Path,
        kept: Option<&LastGood>,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let hash = text.as_ref().ok().map(|text| hash(text));
        if std::mem::replace(&mut self.text, hash) == hash && hash.is_some() {
            return None;
        }
        let origin = origin(path, node_name);
        let text = text.map_err(|issue| vec![Problem::error(origin.place.as_str(), issue)]);
        match text.and_then(|text| load(&text, &origin).map(|manifest| (manifest, text))) {
            Ok((mut manifest, text)) => {
                self.problems = std::mem::take(&mut manifest.warnings);
                self.doubt = None;
                self.good = Some(manifest);
                Some(text)
            }
            Err(problems) => {
                let since = self.doubt.take().map_or(now, |doubt| doubt.since);
                self.doubt = Some(Doubt { since, patience: QUIET, problems })
                    .filter(|doubt| doubt.problems != self.problems);
                self.recall(&origin, kept);
                None
            }
        }
    }

    /// The file has not been good since the agent was started, but perhaps it was before. It then keeps its claims, and
    /// no copy takes them over.
    fn recall(&mut self, origin: &Origin, kept: Option<&LastGood>) {
        if self.good.is_none() {
            let text = kept.and_then(|kept| kept.recall(&origin.place));
            self.good = text.and_then(|text| load(&text, origin).ok());
        }
    }
}

/// Whether the file `path` belongs to the source at `root`: the very file that was configured, whatever its name, or a
/// file in the folder unless it is hidden or an editor's backup.
pub(super) fn concerns(root: &Path, path: &Path) -> bool {
    let is_manifest = |name: &str| !name.starts_with('.') && !name.ends_with('~');
    path == root || path.file_name().is_some_and(|name| is_manifest(&name.to_string_lossy()))
}

/// Whether any part of the path is a dangling link.
fn leads_nowhere(path: &Path) -> bool {
    path.ancestors().any(|part| part.is_symlink() && !part.exists())
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish()
}

fn origin(path: &Path, node_name: &str) -> Origin {
    Origin {
        source: SourceKind::File,
        place: place(path),
        node_name: node_name.to_owned(),
        seen: clock::now(),
    }
}

fn place(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
