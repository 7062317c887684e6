//! The answers to list calls, reduced to what a list view needs.
//!
//! A list keeps all its strings in one buffer, and its entries are views into it: reading ten thousand entries takes a
//! handful of allocations.

use foldhash::{HashSet, HashSetExt};
use rubelet_model::{ContainerState, PodUid, RuntimePod, SandboxState, UnixNanos};

/// Which sandboxes or containers to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFilter<'a> {
    /// All of them.
    All,
    /// Those that carry the UID label of this pod. Pods created by hand may lack the label, and are then not found;
    /// [`RuntimePod::selectable`] says so.
    Pod(&'a PodUid),
}

/// A sandbox in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxEntry<'a> {
    /// Its id.
    pub id: &'a str,
    /// The UID of its pod, from its metadata, else from its label; empty if the runtime was not given one.
    pub pod_uid: &'a str,
    /// The namespace of its pod, likewise.
    pub pod_namespace: &'a str,
    /// The name of its pod, likewise.
    pub pod_name: &'a str,
    /// Whether a list filtered by `pod_uid` finds it, that is, whether its UID label has the same value.
    pub selectable: bool,
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
    /// Its state; unknown if the entry is damaged.
    pub state: SandboxState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
    /// Whether part of the entry could not be read.
    pub damaged: bool,
}

/// A container in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerEntry<'a> {
    /// Its id.
    pub id: &'a str,
    /// The id of its sandbox; empty if the runtime did not report one.
    pub sandbox: &'a str,
    /// Its name in the pod, from its metadata, else from its label; empty if the runtime was not given one.
    pub name: &'a str,
    /// The UID of its pod, from its label; empty if it has none.
    pub pod_uid: &'a str,
    /// The namespace of its pod, from its label; empty if it has none.
    pub pod_namespace: &'a str,
    /// The name of its pod, from its label; empty if it has none.
    pub pod_name: &'a str,
    /// How many containers of this name the pod had before this one.
    pub attempt: u32,
    /// Its state; unknown if the entry is damaged.
    pub state: ContainerState,
    /// When the runtime created it.
    pub created_at: UnixNanos,
    /// Whether part of the entry could not be read.
    pub damaged: bool,
}

/// The answer to a list of sandboxes.
#[derive(Clone, Debug, Default)]
pub struct SandboxList {
    text: String,
    rows: Vec<SandboxRow>,
    /// At least this many entries could not be read well enough to know what they are and to which pod they belong.
    /// While it is not zero, do not take a missing entry as removed.
    pub unreadable: usize,
    /// The number of the connection that answered.
    pub epoch: u64,
    /// The total size of the messages received, in bytes: what one message with everything would take.
    pub size: usize,
    /// Whether it was read state by state, since all of it was too large for one message.
    pub in_parts: bool,
}

/// The answer to a list of containers.
#[derive(Clone, Debug, Default)]
pub struct ContainerList {
    text: String,
    rows: Vec<ContainerRow>,
    /// At least this many entries could not be read well enough to know what they are and to which pod they belong.
    /// While it is not zero, do not take a missing entry as removed.
    pub unreadable: usize,
    /// The number of the connection that answered.
    pub epoch: u64,
    /// The total size of the messages received, in bytes: what one message with everything would take.
    pub size: usize,
    /// Whether it was read state by state, since all of it was too large for one message.
    pub in_parts: bool,
}

/// Pods, assembled from a list of sandboxes and a list of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodListing {
    /// The pods, each once, with their sandboxes and containers [sorted](RuntimePod::sort).
    pub pods: Vec<RuntimePod>,
    /// At least this many entries could not be read well enough to know what they are and to which pod they belong.
    /// While it is not zero, do not take a missing entry as removed.
    pub unreadable: usize,
    /// The number of the connection that both lists came over; `None` if they came over different ones, so that the
    /// runtime may have restarted in between.
    pub epoch: Option<u64>,
}

/// Where a string ends in the buffer of its list; it begins where the one before it ends.
type End = u32;

#[derive(Clone, Copy, Debug)]
struct SandboxRow {
    /// Where the strings begin, and where id, UID, namespace and name end.
    text: [End; 5],
    selectable: bool,
    attempt: u32,
    state: SandboxState,
    created_at: UnixNanos,
    damaged: bool,
}

#[derive(Clone, Copy, Debug)]
struct ContainerRow {
    /// Where the strings begin, and where id, sandbox, name, and the pod's UID, namespace and name end.
    text: [End; 7],
    attempt: u32,
    state: ContainerState,
    created_at: UnixNanos,
    damaged: bool,
}

/// Appends strings to `all`, and returns where they are; `None` if there is no room for them.
fn put<const N: usize, const M: usize>(all: &mut String, texts: [&str; N]) -> Option<[End; M]> {
    const { assert!(M == N + 1, "one place more than texts") };
    let added: usize = texts.iter().map(|text| text.len()).sum();
    End::try_from(all.len().checked_add(added)?).ok()?;
    let mut ends = [all.len() as End; M];
    for (text, end) in texts.into_iter().zip(&mut ends[1..]) {
        all.push_str(text);
        *end = all.len() as End;
    }
    Some(ends)
}

/// Returns the string with this index.
fn get<'a, const M: usize>(all: &'a str, ends: &[End; M], index: usize) -> &'a str {
    all.get(ends[index] as usize..ends[index + 1] as usize).unwrap_or_default()
}

impl SandboxList {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over the entries, in no particular order. A sandbox that the runtime shows twice in one answer may
    /// appear twice; [`assemble`](crate::assemble()) then uses the later entry.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SandboxEntry<'_>> {
        self.rows.iter().map(|row| {
            let text = |index| get(&self.text, &row.text, index);
            SandboxEntry {
                id: text(0),
                pod_uid: text(1),
                pod_namespace: text(2),
                pod_name: text(3),
                selectable: row.selectable,
                attempt: row.attempt,
                state: row.state,
                created_at: row.created_at,
                damaged: row.damaged,
            }
        })
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: SandboxEntry<'_>) {
        let texts = [entry.id, entry.pod_uid, entry.pod_namespace, entry.pod_name];
        let Some(text) = put(&mut self.text, texts) else {
            self.unreadable += 1;
            return;
        };
        self.rows.push(SandboxRow {
            text,
            selectable: entry.selectable,
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
            damaged: entry.damaged,
        });
    }

    /// Removes all entries, but keeps the memory, unless it is much more than the last use needed.
    pub(crate) fn clear(&mut self) {
        empty(&mut self.text, &mut self.rows);
        (self.unreadable, self.epoch, self.size) = (0, 0, 0);
        self.in_parts = false;
    }

    /// Keeps only the last of several entries with the same id.
    pub(crate) fn keep_last(&mut self) {
        keep_last(&self.text, &mut self.rows, |row| &row.text);
    }
}

impl ContainerList {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over the entries, in no particular order. A container that the runtime shows twice in one answer may
    /// appear twice; [`assemble`](crate::assemble()) then uses the later entry.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ContainerEntry<'_>> {
        self.rows.iter().map(|row| {
            let text = |index| get(&self.text, &row.text, index);
            ContainerEntry {
                id: text(0),
                sandbox: text(1),
                name: text(2),
                pod_uid: text(3),
                pod_namespace: text(4),
                pod_name: text(5),
                attempt: row.attempt,
                state: row.state,
                created_at: row.created_at,
                damaged: row.damaged,
            }
        })
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: ContainerEntry<'_>) {
        let texts = [entry.id, entry.sandbox, entry.name, entry.pod_uid, entry.pod_namespace, entry.pod_name];
        let Some(text) = put(&mut self.text, texts) else {
            self.unreadable += 1;
            return;
        };
        self.rows.push(ContainerRow {
            text,
            attempt: entry.attempt,
            state: entry.state,
            created_at: entry.created_at,
            damaged: entry.damaged,
        });
    }

    /// Removes all entries, but keeps the memory, unless it is much more than the last use needed.
    pub(crate) fn clear(&mut self) {
        empty(&mut self.text, &mut self.rows);
        (self.unreadable, self.epoch, self.size) = (0, 0, 0);
        self.in_parts = false;
    }

    /// Keeps only the last of several entries with the same id.
    pub(crate) fn keep_last(&mut self) {
        keep_last(&self.text, &mut self.rows, |row| &row.text);
    }
}

fn empty<R>(text: &mut String, rows: &mut Vec<R>) {
    if text.capacity() / 4 > text.len() {
        text.shrink_to_fit();
        rows.shrink_to_fit();
    }
    text.clear();
    rows.clear();
}

/// Removes the rows whose id, their first string, occurs again later.
fn keep_last<R, const M: usize>(text: &str, rows: &mut Vec<R>, ends: impl Fn(&R) -> &[End; M]) {
    let mut seen = HashSet::with_capacity(rows.len());
    rows.reverse();
    rows.retain(|row| seen.insert(get(text, ends(row), 0)));
    rows.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, attempt: u32) -> ContainerEntry<'_> {
        ContainerEntry {
            id,
            sandbox: "sandbox",
            name: "",
            pod_uid: "uid",
            pod_namespace: "ä namespace",
            pod_name: "name",
            attempt,
            state: ContainerState::Running,
            created_at: UnixNanos(-7),
            damaged: false,
        }
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let mut list = ContainerList::default();
        list.push(entry("a", 0));
        list.push(entry("", 1));
        list.push(entry("c", 2));
        assert_eq!(list.iter().collect::<Vec<_>>(), [entry("a", 0), entry("", 1), entry("c", 2)]);
        assert_eq!((list.len(), list.is_empty()), (3, false));
    }

    #[test]
    fn the_last_of_equal_ids_is_kept() {
        let mut list = ContainerList::default();
        for (attempt, id) in ["a", "b", "a", "c", "b"].into_iter().enumerate() {
            list.push(entry(id, attempt as u32));
        }
        list.keep_last();
        assert_eq!(list.iter().collect::<Vec<_>>(), [entry("a", 2), entry("c", 3), entry("b", 4)]);
    }
}
