//! Reads list entries straight from the wire: only what a list view needs, and each entry on its own, so that a bad one
//! affects no other.
//!
//! What cannot be understood stays visible. An entry that is damaged (cut off, with a field of a wrong type, or with
//! text that is not UTF-8), or whose state we do not know, is kept in state *unknown*. If the damage hides its id, or
//! the pod that it belongs to, it also counts as unreadable, so that nobody takes what it hides as removed. Missing
//! metadata or labels are not damage: the entry keeps the state that the runtime reports.

use std::borrow::Cow;

use rubelet_model::{ContainerState, SandboxState, UnixNanos};

use crate::labels;
use crate::listing::{ContainerEntry, ContainerList, SandboxEntry, SandboxList};
use crate::v1;
use crate::wire::{Fields, Value};

/// A list that is filled from the wire.
pub(crate) trait Lean: Default + Send + 'static {
    /// Reads one entry. `whole` is false if the message ended within it.
    fn read(&mut self, entry: &[u8], whole: bool);

    /// Counts an entry that cannot be read at all, or an unknown number of them.
    fn miss(&mut self);

    /// Notes that a message of `length` bytes begins.
    fn begin_message(&mut self, length: usize);
}

/// Whether anything that has been read so far was wrong.
#[derive(Default)]
struct Damage(bool);

impl Damage {
    /// Reads a string.
    fn text<'a>(&mut self, value: Value<'a>) -> Cow<'a, str> {
        let Value::Bytes(bytes) = value else {
            self.0 = true;
            return Cow::Borrowed("");
        };
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Cow::Borrowed(text);
        }
        self.0 = true;
        String::from_utf8_lossy(bytes)
    }

    /// Reads a string that serves as a key. A damaged one would only mislead, so it counts as missing.
    fn key<'a>(&mut self, value: Value<'a>) -> &'a str {
        let bytes = match value {
            Value::Bytes(bytes) => bytes,
            Value::Varint(_) | Value::Fixed => &[0xff],
        };
        std::str::from_utf8(bytes).unwrap_or_else(|_| {
            self.0 = true;
            ""
        })
    }

    /// Reads a number.
    fn number(&mut self, value: Value<'_>) -> u64 {
        let Value::Varint(number) = value else {
            self.0 = true;
            return 0;
        };
        number
    }

    /// Reads the fields of a nested message.
    #[inline]
    fn message<'a>(&mut self, value: Value<'a>, mut take: impl FnMut(&mut Self, u32, Value<'a>)) {
        let Value::Bytes(message) = value else {
            self.0 = true;
            return;
        };
        self.fields(message, &mut take);
    }

    /// Reads the fields of a message. What follows a damaged field is lost.
    #[inline]
    fn fields<'a>(&mut self, message: &'a [u8], mut take: impl FnMut(&mut Self, u32, Value<'a>)) {
        let mut fields = Fields::new(message);
        for (number, value) in &mut fields {
            take(self, number, value);
        }
        self.0 |= fields.error().is_some();
    }
}

/// The labels that say what an entry belongs to, undecoded: most of them are not needed, since the metadata says the
/// same.
struct PodLabels<'a> {
    uid: Value<'a>,
    name: Value<'a>,
    namespace: Value<'a>,
    container: Value<'a>,
}

impl<'a> PodLabels<'a> {
    fn none() -> Self {
        let none = Value::Bytes(&[]);
        Self { uid: none, name: none, namespace: none, container: none }
    }

    fn read(&mut self, label: Value<'a>, damage: &mut Damage) {
        let mut key: &[u8] = &[];
        let mut value = Value::Bytes(&[]);
        damage.message(label, |damage, number, field| match (number, field) {
            (1, Value::Bytes(text)) => key = text,
            (1, _) => damage.0 = true,
            (2, _) => value = field,
            _ => {}
        });
        // Their lengths all differ, so that at most one of these compares bytes.
        if key == labels::POD_UID.as_bytes() {
            self.uid = value;
        } else if key == labels::POD_NAME.as_bytes() {
            self.name = value;
        } else if key == labels::POD_NAMESPACE.as_bytes() {
            self.namespace = value;
        } else if key == labels::CONTAINER_NAME.as_bytes() {
            self.container = value;
        }
    }
}

fn first_set<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

impl Lean for SandboxList {
    fn read(&mut self, entry: &[u8], whole: bool) {
        let [mut id, mut name, mut namespace] = <[Cow<'_, str>; 3]>::default();
        let mut uid = "";
        let (mut attempt, mut state, mut created_at) = (0, 0, 0);
        let mut labels = PodLabels::none();
        let mut bad_id = Damage::default();
        let mut damage = Damage(!whole);
        damage.fields(entry, |damage, number, value| match number {
            1 => id = bad_id.text(value),
            2 => damage.message(value, |damage, number, value| match number {
                1 => name = damage.text(value),
                2 => uid = damage.key(value),
                3 => namespace = damage.text(value),
                4 => attempt = damage.number(value) as u32,
                _ => {}
            }),
            3 => state = damage.number(value) as i32,
            4 => created_at = damage.number(value) as i64,
            5 => labels.read(value, damage),
            _ => {}
        });
        let label_uid = damage.key(labels.uid);
        if namespace.is_empty() {
            namespace = damage.text(labels.namespace);
        }
        if name.is_empty() {
            name = damage.text(labels.name);
        }
        let damaged = damage.0 || bad_id.0;
        let pod_uid = first_set(uid, label_uid);
        if id.is_empty() || bad_id.0 || (damaged && pod_uid.is_empty()) {
            self.miss();
        }
        if !id.is_empty() {
            self.push(SandboxEntry {
                id: &id,
                pod_uid,
                pod_namespace: &namespace,
                pod_name: &name,
                selectable: !pod_uid.is_empty() && label_uid == pod_uid,
                attempt,
                state: if damaged { SandboxState::Unknown } else { sandbox_state(state) },
                created_at: UnixNanos(created_at),
                damaged,
            });
        }
    }

    fn miss(&mut self) {
        self.unreadable += 1;
    }

    fn begin_message(&mut self, length: usize) {
        self.size += length;
    }
}

impl Lean for ContainerList {
    fn read(&mut self, entry: &[u8], whole: bool) {
        let [mut id, mut name] = <[Cow<'_, str>; 2]>::default();
        let mut sandbox = "";
        let (mut attempt, mut state, mut created_at) = (0, 0, 0);
        let mut labels = PodLabels::none();
        let mut bad_id = Damage::default();
        let mut damage = Damage(!whole);
        damage.fields(entry, |damage, number, value| match number {
            1 => id = bad_id.text(value),
            2 => sandbox = damage.key(value),
            3 => damage.message(value, |damage, number, value| match number {
                1 => name = damage.text(value),
                2 => attempt = damage.number(value) as u32,
                _ => {}
            }),
            6 => state = damage.number(value) as i32,
            7 => created_at = damage.number(value) as i64,
            8 => labels.read(value, damage),
            _ => {}
        });
        let pod_uid = damage.key(labels.uid);
        let (pod_namespace, pod_name) = (damage.text(labels.namespace), damage.text(labels.name));
        if name.is_empty() {
            name = damage.text(labels.container);
        }
        let damaged = damage.0 || bad_id.0;
        if id.is_empty() || bad_id.0 || (damaged && sandbox.is_empty() && pod_uid.is_empty()) {
            self.miss();
        }
        if !id.is_empty() {
            self.push(ContainerEntry {
                id: &id,
                sandbox,
                name: &name,
                pod_uid,
                pod_namespace: &pod_namespace,
                pod_name: &pod_name,
                attempt,
                state: if damaged { ContainerState::Unknown } else { container_state(state) },
                created_at: UnixNanos(created_at),
                damaged,
            });
        }
    }

    fn miss(&mut self) {
        self.unreadable += 1;
    }

    fn begin_message(&mut self, length: usize) {
        self.size += length;
    }
}

/// Converts the number of a sandbox state on the wire.
pub(crate) fn sandbox_state(number: i32) -> SandboxState {
    match v1::PodSandboxState::try_from(number) {
        Ok(v1::PodSandboxState::SandboxReady) => SandboxState::Ready,
        Ok(v1::PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Err(_) => SandboxState::Unknown,
    }
}

/// Converts the number of a container state on the wire.
pub(crate) fn container_state(number: i32) -> ContainerState {
    match v1::ContainerState::try_from(number) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
        Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    }
}
