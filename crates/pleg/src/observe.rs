//! What the PLEG needs from a runtime: the answers to three questions, its announcements, and which calls are in
//! progress.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use rubelet_model::{PodStatus, PodUid, RuntimePod};
use serde::{Deserialize, Serialize};

use crate::announce::{Announcements, StreamError};
use crate::progress::Progress;

/// A runtime, as the PLEG sees it.
///
/// The futures may take as long as they like: each pod is inspected on its own, and a question that hangs holds up no
/// other pod. An implementation should still give each call a time limit, since a call that hangs is retried only after
/// it has failed.
///
/// A runtime for tests, with one pod, on paused time:
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use pleg::model::{ContainerState, ListedContainer, PodRef, PodStatus, PodUid, RuntimePod, UnixNanos};
/// use pleg::{
///     Config, EventKind, Listing, Metrics, NoAnnouncements, Observe, ObserveError, Pleg, Progress, StreamError,
/// };
///
/// #[derive(Clone)]
/// struct Fake(Arc<Mutex<RuntimePod>>);
///
/// impl Observe for Fake {
///     type Announcements = NoAnnouncements;
///
///     async fn list(&self, _: &Progress) -> Result<Listing, ObserveError> {
///         let pod = Arc::new(self.0.lock().unwrap().clone());
///         Ok(Listing { pods: vec![pod], unreadable: 0, epoch: 1 })
///     }
///
///     async fn list_pod(&self, _: &PodUid, progress: &Progress) -> Result<Listing, ObserveError> {
///         self.list(progress).await
///     }
///
///     async fn inspect(&self, pod: &RuntimePod, _: &Progress) -> Result<PodStatus, ObserveError> {
///         let mut status = PodStatus::from(pod);
///         status.containers[0].exit_code = 3;
///         Ok(status)
///     }
///
///     async fn announcements(&self) -> Result<NoAnnouncements, StreamError> {
///         Err(StreamError::Unsupported)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut pod = RuntimePod::empty(PodRef::new("uid", "default", "web"));
/// pod.containers.push(ListedContainer {
///     id: "c0ffee".into(),
///     name: "server".into(),
///     sandbox: "5a4db0c5".into(),
///     attempt: 0,
///     state: ContainerState::Running,
///     created_at: UnixNanos(1),
/// });
/// let fake = Fake(Arc::new(Mutex::new(pod)));
/// let mut pleg = Pleg::new(fake.clone(), Config::default(), Metrics::default());
/// let mut events = pleg.handle().subscribe();
/// pleg.start();
/// assert_eq!(events.next().await.unwrap().kind, EventKind::ContainerStarted);
///
/// fake.0.lock().unwrap().containers[0].state = ContainerState::Exited;
/// let died = events.next().await.unwrap();
/// assert_eq!((died.kind, died.exit.as_ref().map(|exit| exit.code)), (EventKind::ContainerDied, Some(3)));
/// # }
/// ```
pub trait Observe: Send + Sync + 'static {
    /// The stream that [`announcements`](Self::announcements) returns; [`NoAnnouncements`](crate::NoAnnouncements) if
    /// the runtime has none.
    type Announcements: Announcements;

    /// Lists all pods that the runtime knows, each once, with their sandboxes and containers, including dead ones.
    fn list(&self, progress: &Progress) -> impl Future<Output = Result<Listing, ObserveError>> + Send;

    /// Lists one pod: the listing contains that pod, or no pod if the runtime does not know it.
    fn list_pod(
        &self,
        pod: &PodUid,
        progress: &Progress,
    ) -> impl Future<Output = Result<Listing, ObserveError>> + Send;

    /// Returns the status of everything in `pod`. What has been removed since the pod was listed is left out.
    fn inspect(
        &self,
        pod: &RuntimePod,
        progress: &Progress,
    ) -> impl Future<Output = Result<PodStatus, ObserveError>> + Send;

    /// Asks the runtime to announce what happens from now on. A list that is requested after this has returned must
    /// show everything that is not announced.
    fn announcements(&self) -> impl Future<Output = Result<Self::Announcements, StreamError>> + Send;
}

/// The answer to a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The pods, each once, in any order. An unchanged pod may be the same `Arc` as in the listing before; it is then
    /// recognised without being compared.
    pub pods: Vec<Arc<RuntimePod>>,
    /// How many entries could not be read well enough to know what they are and to which pod they belong. While there
    /// are any, no pod or container that is missing from the list is taken as removed.
    pub unreadable: usize,
    /// The number of the connection to the runtime that answered. A new number means that the runtime may have
    /// restarted; something then counts as removed only when two lists agree.
    pub epoch: u64,
}

/// The calls that lists and inspections consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// List sandboxes.
    ListPodSandbox,
    /// List containers.
    ListContainers,
    /// Inspect one sandbox.
    PodSandboxStatus,
    /// Inspect one container.
    ContainerStatus,
}

impl Call {
    /// The kubelet's word for the call, as in its metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ListPodSandbox => "list_podsandbox",
            Self::ListContainers => "list_containers",
            Self::PodSandboxStatus => "podsandbox_status",
            Self::ContainerStatus => "container_status",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a question could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub struct ObserveError {
    /// The call that failed.
    pub call: Call,
    /// The id of the container or sandbox that the call was about; `None` for a list.
    pub target: Option<Arc<str>>,
    /// What went wrong, for programs.
    pub failure: Failure,
    /// What went wrong, for people.
    pub message: Arc<str>,
}

impl fmt::Display for ObserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Some(target) => write!(f, "{} of {target}: {}", self.call, self.message),
            None => write!(f, "{}: {}", self.call, self.message),
        }
    }
}

/// The kinds of failure that the PLEG or its users tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Nobody answers: the runtime is down, or is restarting.
    Unavailable,
    /// There was no answer in time.
    Deadline,
    /// The answer is larger than the limit for messages.
    TooLarge,
    /// The two lists of a listing came over different connections, so they do not belong together.
    Reconnected,
    /// The runtime answered with an error.
    Refused,
    /// The answer violates the protocol.
    Invalid,
    /// The observer itself panicked.
    Panicked,
}
