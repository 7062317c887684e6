//! How a list is read, whatever the runtime supports and however long the list is:
//!
//! 1. as a stream, if the runtime has streamed lists, which have no size limit;
//! 2. otherwise in one answer;
//! 3. if that is too large for a message, with one list for each state.
//!
//! The list of a single pod is short, so it starts with step 2.
//!
//! If the runtime lacks streamed lists, that is remembered for as long as the connection lasts; that one answer is too
//! large is remembered for five minutes. A list that fails half-way fails as a whole, and all of a list is read over
//! one connection.
//!
//! # Lists by state are complete
//!
//! While several lists are read, things change state, and one that moves from a state whose list is still to be read
//! into a state whose list has already been read would be missed. States are therefore read in the order in which
//! things pass through them: a container goes from *unknown* (after a restart of the runtime) to *exited*, from
//! *created* to *running* or *exited*, and from *running* to *exited*; a sandbox goes from *ready* to *not ready*.
//! Nothing moves backwards unless the runtime restarts, which ends the connection and so fails the list. So everything
//! that existed before the first list and was not removed before the last one is found at least once; if it is found
//! twice, the later entry counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use rubelet_model::PodUid;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::call::{Attempt, is_too_large};
use crate::lean::Lean;
use crate::{ContainerList, ListFilter, SandboxList, labels, v1};

/// How long to assume that a list does not fit into one answer.
const TOO_LARGE_FOR: Duration = Duration::from_secs(300);

/// What is known about the lists of the runtime, for as long as the connection lasts.
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

/// A kind of list that runtimes have.
pub(crate) trait Listed: Lean {
    /// The method that answers with one message.
    const UNARY: &'static str;
    /// The method that answers with a stream.
    const STREAM: &'static str;
    /// The states, in the order in which things pass through them.
    const STATES: &'static [i32];

    /// The request, for all states or for one.
    fn request(pod: Option<&PodUid>, state: Option<i32>) -> Bytes;

    /// What is known about lists of this kind.
    fn lesson(learned: &Learned) -> &Lesson;

    /// Removes all entries, but keeps the memory.
    fn clear(&mut self);

    /// Whether it has no entries, neither readable nor unreadable ones.
    fn holds_nothing(&self) -> bool;

    /// Keeps only the last of several entries with the same id.
    fn keep_last(&mut self);

    /// Notes that the list was read state by state.
    fn note_parts(&mut self);
}

/// Reads a list in whichever way works, reusing the memory of `spare`.
pub(crate) async fn read<L: Listed>(
    attempt: &Attempt,
    mut spare: L,
    filter: ListFilter<'_>,
) -> Result<L, Status> {
    spare.clear();
    match filter {
        ListFilter::All => all(attempt, spare).await,
        // The list of one pod is short: trying a stream first would only cost time.
        ListFilter::Pod(uid) => match one(attempt, L::request(Some(uid), None), spare).await {
            Err(status) if is_too_large(&status) => by_state(attempt, Some(uid)).await,
            answer => answer,
        },
    }
}

async fn all<L: Listed>(attempt: &Attempt, mut spare: L) -> Result<L, Status> {
    let lesson = L::lesson(&attempt.connection().learned);
    if !lesson.no_stream.load(Ordering::Relaxed) {
        match attempt.list(L::STREAM, L::request(None, None), std::mem::take(&mut spare)).await {
            // An empty stream may mean that there is nothing, or that the method does nothing: the other method
            // decides.
            Ok((mut list, _)) if !list.holds_nothing() => {
                list.keep_last();
                return Ok(list);
            }
            Ok(_) => {}
            Err(status) if status.code() == Code::Unimplemented => {
                lesson.no_stream.store(true, Ordering::Relaxed);
            }
            Err(status) => return Err(status),
        }
    }
    if !lesson.is_too_large() {
        match one(attempt, L::request(None, None), spare).await {
            Err(status) if is_too_large(&status) => {
                *lesson.too_large_until.lock() = Some(Instant::now() + TOO_LARGE_FOR);
            }
            answer => return answer,
        }
    }
    by_state(attempt, None).await
}

async fn by_state<L: Listed>(attempt: &Attempt, pod: Option<&PodUid>) -> Result<L, Status> {
    let mut list = L::default();
    for state in L::STATES {
        list = one(attempt, L::request(pod, Some(*state)), list).await?;
    }
    list.keep_last();
    list.note_parts();
    Ok(list)
}

/// Reads a list that comes in one answer.
async fn one<L: Listed>(attempt: &Attempt, request: Bytes, list: L) -> Result<L, Status> {
    match attempt.list(L::UNARY, request, list).await? {
        // A success without a message must not be mistaken for an empty list.
        (_, 0) => Err(Status::internal("a success without an answer")),
        (list, _) => Ok(list),
    }
}

fn selector(pod: Option<&PodUid>) -> HashMap<String, String> {
    pod.map(|uid| (labels::POD_UID.to_owned(), uid.to_string())).into_iter().collect()
}

impl Listed for SandboxList {
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

    fn clear(&mut self) {
        self.clear();
    }

    fn holds_nothing(&self) -> bool {
        self.is_empty() && self.unreadable == 0
    }

    fn keep_last(&mut self) {
        self.keep_last();
    }

    fn note_parts(&mut self) {
        self.in_parts = true;
    }
}

impl Listed for ContainerList {
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

    fn clear(&mut self) {
        self.clear();
    }

    fn holds_nothing(&self) -> bool {
        self.is_empty() && self.unreadable == 0
    }

    fn keep_last(&mut self) {
        self.keep_last();
    }

    fn note_parts(&mut self) {
        self.in_parts = true;
    }
}
