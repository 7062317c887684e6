//! Reads list answers straight from the wire into lean entries: only what a list view needs, and each entry on its
//! own, so that a bad one costs nothing but itself.
//!
//! What cannot be understood stays visible. An entry with damage (cut off, a field of a wrong type, text that is not
//! UTF-8) or with a state that we do not know is kept in state *unknown*. If the damage hides its id, or which pod it
//! belongs to, it also counts as unreadable, so that nobody takes what it hides as removed. Merely missing metadata
//! or labels are no damage: the entry keeps the state that the runtime reports.

use std::borrow::Cow;

use rubelet_model::{ContainerId, ContainerState, SandboxId, SandboxState, UnixNanos};

use crate::labels;
use crate::listing::{ContainerEntry, SandboxEntry};
use crate::names::Names;
use crate::v1;
use crate::wire::{Fields, Value, WireError};

/// A kind of list entry that can be read from the wire.
pub(crate) trait Lean: Sized + Send + Sync + 'static {
    /// Reads one entry. `whole` is false if the message ended within it.
    fn read(message: &[u8], whole: bool, names: &mut Names) -> Read<Self>;
}

/// What reading an entry gave.
pub(crate) struct Read<T> {
    /// The entry, if at least its id could be read.
    pub(crate) entry: Option<T>,
    /// Whether its id and its pod are known.
    pub(crate) identified: bool,
}

/// The entries of an answer, as far as they could be read.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) unreadable: usize,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), unreadable: 0 }
    }
}

impl<T> Entries<T> {
    /// Whether the answer held nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unreadable == 0
    }

    /// Adds the entries of the next part of the same list.
    pub(crate) fn append(&mut self, mut next: Self) {
        self.entries.append(&mut next.entries);
        self.unreadable += next.unreadable;
    }
}

impl<T: Lean> Entries<T> {
    /// Reads a list answer: a message whose field 1 holds one entry each time it appears.
    pub(crate) fn read(&mut self, answer: &[u8], names: &mut Names) {
        for field in Fields::new(answer) {
            match field {
                Ok((1, Value::Bytes(message))) => self.add(T::read(message, true, names)),
                Ok((1, _)) => self.unreadable += 1,
                Ok(_) => {}
                // Where the answer breaks off, an unknown number of entries may be missing: count one at least.
                Err(WireError::Truncated { field: Some((1, message)) }) => {
                    let mut read = T::read(message, false, names);
                    read.identified = false;
                    self.add(read);
                }
                Err(_) => self.unreadable += 1,
            }
        }
    }

    fn add(&mut self, read: Read<T>) {
        self.unreadable += usize::from(read.entry.is_none() || !read.identified);
        self.entries.extend(read.entry);
    }
}

/// A text on the wire, and whether it was good.
fn text<'a>(value: Value<'a>, damaged: &mut bool) -> Cow<'a, str> {
    let Value::Bytes(bytes) = value else {
        *damaged = true;
        return Cow::Borrowed("");
    };
    let text = String::from_utf8_lossy(bytes);
    *damaged |= matches!(text, Cow::Owned(_));
    text
}

fn number(value: Value<'_>, damaged: &mut bool) -> u64 {
    let Value::Varint(number) = value else {
        *damaged = true;
        return 0;
    };
    number
}

/// The fields of a message; what follows damage is gone.
fn fields<'a>(message: &'a [u8], damaged: &mut bool) -> impl Iterator<Item = (u32, Value<'a>)> {
    Fields::new(message).map_while(move |field| match field {
        Ok(field) => Some(field),
        Err(_) => {
            *damaged = true;
            None
        }
    })
}

/// The fields of a message within a message.
fn inner<'a>(value: Value<'a>, damaged: &mut bool) -> impl Iterator<Item = (u32, Value<'a>)> {
    let message = match value {
        Value::Bytes(message) => message,
        _ => {
            *damaged = true;
            &[]
        }
    };
    fields(message, damaged)
}

/// The labels that say what an entry belongs to.
#[derive(Default)]
struct PodLabels<'a> {
    uid: Cow<'a, str>,
    name: Cow<'a, str>,
    namespace: Cow<'a, str>,
    container: Cow<'a, str>,
}

impl<'a> PodLabels<'a> {
    fn read(&mut self, label: Value<'a>, damaged: &mut bool) {
        let mut key: &[u8] = &[];
        let mut value = Value::Bytes(&[]);
        let mut bad = false;
        for (number, field) in inner(label, damaged) {
            match (number, field) {
                (1, Value::Bytes(text)) => key = text,
                (1, _) => bad = true,
                (2, _) => value = field,
                _ => {}
            }
        }
        *damaged |= bad;
        let slot = match key {
            _ if key == labels::POD_UID.as_bytes() => &mut self.uid,
            _ if key == labels::POD_NAME.as_bytes() => &mut self.name,
            _ if key == labels::POD_NAMESPACE.as_bytes() => &mut self.namespace,
            _ if key == labels::CONTAINER_NAME.as_bytes() => &mut self.container,
            _ => return,
        };
        *slot = text(value, damaged);
    }
}

fn first_set<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

impl Lean for SandboxEntry {
    fn read(message: &[u8], whole: bool, names: &mut Names) -> Read<Self> {
        let (mut damaged, mut bad_id) = (!whole, false);
        let (mut id, mut uid, mut name, mut namespace) =
            <(Cow<'_, str>, Cow<'_, str>, Cow<'_, str>, Cow<'_, str>)>::default();
        let (mut attempt, mut state, mut created_at) = (0, 0, 0);
        let mut labels = PodLabels::default();
        let mut cut = false;
        for (field, value) in fields(message, &mut cut) {
            match field {
                1 => id = text(value, &mut bad_id),
                2 => {
                    let mut cut = false;
                    for (field, value) in inner(value, &mut cut) {
                        match field {
                            1 => name = text(value, &mut damaged),
                            2 => uid = text(value, &mut damaged),
                            3 => namespace = text(value, &mut damaged),
                            4 => attempt = number(value, &mut damaged) as u32,
                            _ => {}
                        }
                    }
                    damaged |= cut;
                }
                3 => state = number(value, &mut damaged) as i32,
                4 => created_at = number(value, &mut damaged) as i64,
                5 => labels.read(value, &mut damaged),
                _ => {}
            }
        }
        damaged |= cut | bad_id;
        let pod_uid = first_set(&uid, &labels.uid);
        let identified = !damaged || (!bad_id && !pod_uid.is_empty());
        let entry = (!id.is_empty()).then(|| Self {
            id: SandboxId::from(names.share(&id)),
            pod_uid: names.share(pod_uid),
            pod_namespace: names.share(first_set(&namespace, &labels.namespace)),
            pod_name: names.share(first_set(&name, &labels.name)),
            attempt,
            state: if damaged { SandboxState::Unknown } else { sandbox_state(state) },
            created_at: UnixNanos(created_at),
            uid_label: names.share(&labels.uid),
        });
        Read { entry, identified }
    }
}

impl Lean for ContainerEntry {
    fn read(message: &[u8], whole: bool, names: &mut Names) -> Read<Self> {
        let (mut damaged, mut bad_id) = (!whole, false);
        let (mut id, mut sandbox, mut name) = <(Cow<'_, str>, Cow<'_, str>, Cow<'_, str>)>::default();
        let (mut attempt, mut state, mut created_at) = (0, 0, 0);
        let mut labels = PodLabels::default();
        let mut cut = false;
        for (field, value) in fields(message, &mut cut) {
            match field {
                1 => id = text(value, &mut bad_id),
                2 => sandbox = text(value, &mut damaged),
                3 => {
                    let mut cut = false;
                    for (field, value) in inner(value, &mut cut) {
                        match field {
                            1 => name = text(value, &mut damaged),
                            2 => attempt = number(value, &mut damaged) as u32,
                            _ => {}
                        }
                    }
                    damaged |= cut;
                }
                6 => state = number(value, &mut damaged) as i32,
                7 => created_at = number(value, &mut damaged) as i64,
                8 => labels.read(value, &mut damaged),
                _ => {}
            }
        }
        damaged |= cut | bad_id;
        let identified = !damaged || (!bad_id && !(sandbox.is_empty() && labels.uid.is_empty()));
        let entry = (!id.is_empty()).then(|| Self {
            id: ContainerId::from(names.share(&id)),
            sandbox: SandboxId::from(names.share(&sandbox)),
            name: names.share(first_set(&name, &labels.container)),
            attempt,
            state: if damaged { ContainerState::Unknown } else { container_state(state) },
            created_at: UnixNanos(created_at),
            pod_uid: names.share(&labels.uid),
            pod_namespace: names.share(&labels.namespace),
            pod_name: names.share(&labels.name),
        });
        Read { entry, identified }
    }
}

/// The state of a sandbox by its number on the wire.
pub(crate) fn sandbox_state(number: i32) -> SandboxState {
    match v1::PodSandboxState::try_from(number) {
        Ok(v1::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(v1::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

/// The state of a container by its number on the wire.
pub(crate) fn container_state(number: i32) -> ContainerState {
    match v1::ContainerState::try_from(number) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}
