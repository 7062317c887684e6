//! What can go wrong with a call: which call, what kind of failure, and its cause.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tonic::Code;

use crate::connection::ConnectError;
use crate::{Endpoint, Operation};

/// A call that failed.
///
/// Cloning is cheap, so one error can be kept and given to many.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    operation: Operation,
    kind: ErrorKind,
    endpoint: Endpoint,
    detail: Arc<str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of failure that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The socket does not exist.
    NoSocket,
    /// There is something at the path, but it is not a socket.
    NotASocket,
    /// We have no permission to use the socket.
    PermissionDenied,
    /// The socket exists, but nobody listens on it.
    ConnectionRefused,
    /// The connection was accepted, but then nothing was received.
    Silent,
    /// What answers does not speak gRPC.
    NotGrpc,
    /// The runtime speaks only CRI v1alpha2.
    OldApi,
    /// It speaks gRPC, but not CRI.
    NotCri,
    /// The runtime is there, but cannot answer.
    Unavailable,
    /// The connection broke before the answer arrived. The runtime may have carried out the request.
    ConnectionLost,
    /// There was no answer in time.
    Deadline,
    /// The command ran longer than its timeout.
    CommandTimeout,
    /// The runtime cancelled the call.
    Cancelled,
    /// The runtime does not know the thing that the call is about.
    NotFound,
    /// The thing already exists.
    AlreadyExists,
    /// The runtime does not have this call, or does not support what the request asks for.
    Unimplemented,
    /// The answer is larger than the limit for messages.
    TooLarge,
    /// The answer violates the protocol: the named field is missing or makes no sense.
    Invalid(&'static str),
    /// The runtime answered with another gRPC error code.
    Code(Code),
}

impl Error {
    pub(crate) fn new(operation: Operation, kind: ErrorKind, endpoint: &Endpoint, detail: &str) -> Self {
        Self(Box::new(Inner {
            operation,
            kind,
            endpoint: endpoint.clone(),
            detail: in_one_line(detail),
            source: None,
        }))
    }

    pub(crate) fn from_connect(operation: Operation, endpoint: &Endpoint, error: ConnectError) -> Self {
        Self(Box::new(Inner {
            operation,
            kind: error.kind,
            endpoint: endpoint.clone(),
            detail: in_one_line(&error.detail),
            source: error.source,
        }))
    }

    pub(crate) fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The call that failed.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The runtime that was called.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// The message of the runtime or of the system; may be empty.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What went wrong and, where we know, what to do about it: the error without the name of the call.
    #[must_use]
    pub fn explanation(&self) -> impl fmt::Display {
        Explanation(&self.0)
    }

    /// Whether the runtime does not know the thing that the call is about.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the runtime lacks the call, or does not support what the request asks for.
    #[must_use]
    pub fn is_unimplemented(&self) -> bool {
        self.kind() == ErrorKind::Unimplemented
    }

    /// Whether the time limit of the call, or of the command in it, has passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), ErrorKind::Deadline | ErrorKind::CommandTimeout | ErrorKind::Silent)
    }

    /// Whether nobody answered: there is no runtime at the endpoint, or it is down, or we may not use it, or the
    /// connection broke.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::NoSocket
                | ErrorKind::NotASocket
                | ErrorKind::PermissionDenied
                | ErrorKind::ConnectionRefused
                | ErrorKind::Silent
                | ErrorKind::NotGrpc
                | ErrorKind::Unavailable
                | ErrorKind::ConnectionLost
        )
    }

    /// Whether the same call may succeed later without any change to it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind() {
            ErrorKind::NoSocket
            | ErrorKind::ConnectionRefused
            | ErrorKind::Silent
            | ErrorKind::Unavailable
            | ErrorKind::ConnectionLost
            | ErrorKind::Deadline
            | ErrorKind::Cancelled => true,
            ErrorKind::Code(code) => {
                matches!(code, Code::Aborted | Code::Unknown | Code::Internal | Code::ResourceExhausted)
            }
            ErrorKind::NotASocket
            | ErrorKind::PermissionDenied
            | ErrorKind::NotGrpc
            | ErrorKind::OldApi
            | ErrorKind::NotCri
            | ErrorKind::CommandTimeout
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::Unimplemented
            | ErrorKind::TooLarge
            | ErrorKind::Invalid(_) => false,
        }
    }
}

impl fmt::Display for Error {
    /// Writes one line: the call, what went wrong and, where we know, what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation(), self.explanation())
    }
}

/// See [`Error::explanation`].
struct Explanation<'a>(&'a Inner);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, endpoint, detail, .. } = self.0;
        let path = endpoint.path().display();
        match kind {
            ErrorKind::NoSocket => {
                write!(f, "there is no socket at {path}; is the runtime running, and is this its endpoint?")
            }
            ErrorKind::NotASocket => {
                write!(f, "{path} is not a socket; give the endpoint of a container runtime")
            }
            ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "no permission to use {path}; run as root, or as a user that may write to the socket"
                )
            }
            ErrorKind::ConnectionRefused => {
                write!(f, "nobody listens on {path}; the runtime has stopped: start it again")
            }
            ErrorKind::Silent => write!(
                f,
                "the connection to {path} was accepted, but {detail}; the runtime may hang: see its log, or restart it"
            ),
            ErrorKind::NotGrpc => {
                write!(
                    f,
                    "what answers on {path} does not speak gRPC ({detail}); give the endpoint of a CRI runtime"
                )
            }
            ErrorKind::OldApi => write!(
                f,
                "the runtime at {path} ({detail}) speaks only CRI v1alpha2, but v1 is needed; upgrade the runtime \
                 (containerd has v1 from 1.6 on)"
            ),
            ErrorKind::NotCri => write!(
                f,
                "what answers on {path} speaks gRPC but not CRI; if it is containerd, its CRI plugin is disabled: see \
                 disabled_plugins in its configuration"
            ),
            ErrorKind::Unavailable => write!(f, "the runtime at {path} is not available{}", Said(detail)),
            ErrorKind::ConnectionLost => {
                write!(f, "the connection to the runtime at {path} broke before it answered{}", Said(detail))
            }
            ErrorKind::Deadline => write!(f, "no answer from the runtime at {path} in time{}", Said(detail)),
            ErrorKind::CommandTimeout => {
                write!(f, "the command exceeded its time limit{}", Said(detail))
            }
            ErrorKind::Cancelled => write!(f, "cancelled{}", Said(detail)),
            ErrorKind::NotFound => write!(f, "not found{}", Said(detail)),
            ErrorKind::AlreadyExists => write!(f, "it already exists{}", Said(detail)),
            ErrorKind::Unimplemented => write!(f, "the runtime cannot do this{}", Said(detail)),
            ErrorKind::TooLarge => write!(f, "the answer is larger than a message can be{}", Said(detail)),
            ErrorKind::Invalid(field) => {
                write!(f, "the runtime's answer is not valid: {field}{}", Said(detail))
            }
            ErrorKind::Code(code) => write!(f, "the runtime answered {code:?}{}", Said(detail)),
        }
    }
}

/// The detail of an error after a colon, if there is one.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The text on one line, without control characters, which might upset a terminal.
fn in_one_line(text: &str) -> Arc<str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c == ' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").into()
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("operation", &self.0.operation)
            .field("kind", &self.0.kind)
            .field("endpoint", &self.0.endpoint)
            .field("detail", &self.0.detail)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
