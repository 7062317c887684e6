//! How a list is read, whatever the runtime can do and however long the list is.
//!
//! 1. As a stream, if the runtime has streamed lists. They have no limit of size.
//! 2. Else in one answer.
//! 3. If that is too large for a message, one list for each state.
//!
//! What a runtime lacks is remembered for as long as the connection lasts, so it is asked only once; that one answer
//! is too large is remembered for a few minutes. A list that fails half-way fails as a whole, and all of one list is
//! read over one connection.
//!
//! # Lists by state are complete
//!
//! While several lists are read, things change state, and one that moves from a list yet to come into one already
//! read would be missed. States are therefore read in the order in which things pass through them: a container goes
//! from *unknown* (after a restart of the runtime) to *exited*, from *created* to *running* or *exited*, and from
//! *running* to *exited*; a sandbox from *ready* to *not ready*. No move leads backwards, short of a restart of the
//! runtime, which ends the connection and so fails the list. So whatever existed before the first list and was not
//! removed before the last is found, at least once; if found twice, the later answer counts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use rubelet_model::PodUid;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::call::{Attempt, is_too_large};
use crate::codec::List;
use crate::lean::{Entries, Lean};
use crate::names::Names;
use crate::{ContainerEntry, ListFilter, SandboxEntry, labels, v1};

/// How long to believe that a list does not fit into one answer.
const TOO_LARGE_FOR: Duration = Duration::from_secs(300);

/// What a connection has learned about the lists of its runtime.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    sandboxes: Lesson,
    containers: Lesson,
}

/// What is known about one kind of list.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    no_stream: AtomicBool,
    too_large_until: Mutex<Option<Instant>>,
}

impl Lesson {
    fn is_too_large(&self) -> bool {
        self.too_large_until.lock().is_some_and(|until| Instant::now() < until)
    }
}

/// A kind of thing that runtimes list.
pub(crate) trait Listed: Lean {
    /// The method that answers in one message.
    const UNARY: &'static str;
    /// The method that answers with a stream.
    const STREAM: &'static str;
    /// The states, in the order in which things pass through them.
    const STATES: &'static [i32];

    /// The request, for all states or for one.
    fn request(pod: Option<&PodUid>, state: Option<i32>) -> Bytes;

    /// What is known about such lists.
    fn lesson(learned: &Learned) -> &Lesson;

    /// What it is identified by.
    fn id(&self) -> &str;
}

/// Reads a list in whichever way works.
pub(crate) async fn read<T: Listed>(
    attempt: &Attempt,
    filter: ListFilter<'_>,
    names: &Arc<Mutex<Names>>,
) -> Result<Entries<T>, Status> {
    let decoder = List::<T>::new(names);
    let lesson = T::lesson(&attempt.connection().learned);
    let pod = match filter {
        ListFilter::All => None,
        ListFilter::Pod(uid) => Some(uid),
    };
    // The list of one pod is short: asking for a stream first would only cost time.
    if pod.is_none() && !lesson.no_stream.load(Ordering::Relaxed) {
        match stream(attempt, T::request(None, None), &decoder).await {
            // An empty stream may mean that nothing is there, or a method that does nothing: see what the other says.
            Ok(read) if !read.is_empty() => return Ok(read),
            Ok(_) => {}
            Err(status) if status.code() == Code::Unimplemented => {
                lesson.no_stream.store(true, Ordering::Relaxed)
            }
            Err(status) => return Err(status),
        }
    }
    if !lesson.is_too_large() {
        match attempt.unary(T::UNARY, T::request(pod, None), decoder.clone()).await {
            Err(status) if is_too_large(&status) => {
                *lesson.too_large_until.lock() = Some(Instant::now() + TOO_LARGE_FOR);
            }
            answer => return answer,
        }
    }
    let mut merged = Merged::default();
    for state in T::STATES {
        merged.add(attempt.unary(T::UNARY, T::request(pod, Some(*state)), decoder.clone()).await?);
    }
    Ok(merged.entries)
}

async fn stream<T: Listed>(
    attempt: &Attempt,
    request: Bytes,
    decoder: &List<T>,
) -> Result<Entries<T>, Status> {
    let mut answers = attempt.stream(T::STREAM, request, decoder.clone()).await?;
    let mut all = Entries::default();
    while let Some(answer) = answers.message().await? {
        all.append(answer);
    }
    Ok(all)
}

/// Lists of one kind, read one after the other; of two entries with one id, the later counts.
struct Merged<T> {
    entries: Entries<T>,
    positions: HashMap<String, usize>,
}

impl<T> Default for Merged<T> {
    fn default() -> Self {
        Self { entries: Entries::default(), positions: HashMap::new() }
    }
}

impl<T: Listed> Merged<T> {
    fn add(&mut self, later: Entries<T>) {
        self.entries.unreadable += later.unreadable;
        for entry in later.entries {
            match self.positions.entry(entry.id().to_owned()) {
                Entry::Occupied(known) => self.entries.entries[*known.get()] = entry,
                Entry::Vacant(new) => {
                    new.insert(self.entries.entries.len());
                    self.entries.entries.push(entry);
                }
            }
        }
    }
}

fn selector(pod: Option<&PodUid>) -> HashMap<String, String> {
    pod.map(|uid| (labels::POD_UID.to_owned(), uid.to_string())).into_iter().collect()
}

impl Listed for SandboxEntry {
    const UNARY: &'static str = "/runtime.v1.RuntimeService/ListPodSandbox";
    const STREAM: &'static str = "/runtime.v1.RuntimeService/StreamPodSandboxes";
    const STATES: &'static [i32] =
        &[v1::PodSandboxState::SandboxReady as i32, v1::PodSandboxState::SandboxNotready as i32];

    fn request(pod: Option<&PodUid>, state: Option<i32>) -> Bytes {
        let filter = v1::PodSandboxFilter {
            id: String::new(),
            state: state.map(|state| v1::PodSandboxStateValue { state }),
            label_selector: selector(pod),
        };
        let filter = (filter != v1::PodSandboxFilter::default()).then_some(filter);
        // The request for a stream has the same shape.
        v1::ListPodSandboxRequest { filter }.encode_to_vec().into()
    }

    fn lesson(learned: &Learned) -> &Lesson {
        &learned.sandboxes
    }

    fn id(&self) -> &str {
        self.id.as_str()
    }
}

impl Listed for ContainerEntry {
    const UNARY: &'static str = "/runtime.v1.RuntimeService/ListContainers";
    const STREAM: &'static str = "/runtime.v1.RuntimeService/StreamContainers";
    const STATES: &'static [i32] = &[
        v1::ContainerState::ContainerUnknown as i32,
        v1::ContainerState::ContainerCreated as i32,
        v1::ContainerState::ContainerRunning as i32,
        v1::ContainerState::ContainerExited as i32,
    ];

    fn request(pod: Option<&PodUid>, state: Option<i32>) -> Bytes {
        let filter = v1::ContainerFilter {
            id: String::new(),
            state: state.map(|state| v1::ContainerStateValue { state }),
            pod_sandbox_id: String::new(),
            label_selector: selector(pod),
        };
        let filter = (filter != v1::ContainerFilter::default()).then_some(filter);
        // The request for a stream has the same shape.
        v1::ListContainersRequest { filter }.encode_to_vec().into()
    }

    fn lesson(learned: &Learned) -> &Lesson {
        &learned.containers
    }

    fn id(&self) -> &str {
        self.id.as_str()
    }
}
