//! What can go wrong with a call: which call, what kind of failure, and what caused it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tonic::Code;

use crate::connection::ConnectError;
use crate::{Endpoint, Operation};

/// A call that failed.
///
/// Cloning is cheap, so an error can be kept and told to many.
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
    /// There is something at the path, but not a socket.
    NotASocket,
    /// We may not use the socket.
    PermissionDenied,
    /// The socket exists, but nobody listens on it.
    ConnectionRefused,
    /// The connection was accepted, and then nothing was heard.
    Silent,
    /// What answers does not speak gRPC.
    NotGrpc,
    /// The runtime speaks only CRI v1alpha2.
    OldApi,
    /// It speaks gRPC, but not CRI.
    NotCri,
    /// The runtime is there but cannot answer.
    Unavailable,
    /// The connection broke before the answer came. What was asked for may have been done.
    ConnectionLost,
    /// No answer in time.
    Deadline,
    /// The command ran longer than it was given.
    CommandTimeout,
    /// The call was cancelled, by the runtime.
    Cancelled,
    /// The runtime does not know the thing that was asked for.
    NotFound,
    /// The thing exists already.
    AlreadyExists,
    /// The runtime does not have this call, or not what the request asks for.
    Unimplemented,
    /// The answer is larger than a message may be.
    TooLarge,
    /// The answer breaks the protocol: the named field is missing or makes no sense.
    Invalid(&'static str),
    /// The runtime answered with an error of another gRPC code.
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

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The runtime that was asked.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// What the runtime or the system said; may be empty.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What went wrong, and what to do about it where we know: the error without the name of the call.
    #[must_use]
    pub fn explanation(&self) -> impl fmt::Display {
        Explanation(&self.0)
    }

    /// Whether the runtime does not know the thing that was asked for.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the runtime lacks the call, or what the request asks for.
    #[must_use]
    pub fn is_unimplemented(&self) -> bool {
        self.kind() == ErrorKind::Unimplemented
    }

    /// Whether time ran out, of the call or of the command in it.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), ErrorKind::Deadline | ErrorKind::CommandTimeout | ErrorKind::Silent)
    }

    /// Whether nobody answered: there is no runtime at the endpoint, or not now, or not for us, or no longer.
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

    /// Whether the same call may succeed later without anybody changing it.
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
    /// One line: the call, what went wrong, and what to do about it where we know.
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
                "the runtime at {path} ({detail}) speaks only CRI v1alpha2, and v1 is needed; upgrade the runtime \
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
                write!(f, "the command took longer than it was given{}", Said(detail))
            }
            ErrorKind::Cancelled => write!(f, "cancelled{}", Said(detail)),
            ErrorKind::NotFound => write!(f, "not found{}", Said(detail)),
            ErrorKind::AlreadyExists => write!(f, "it exists already{}", Said(detail)),
            ErrorKind::Unimplemented => write!(f, "the runtime cannot do this{}", Said(detail)),
            ErrorKind::TooLarge => write!(f, "the answer is larger than a message may be{}", Said(detail)),
            ErrorKind::Invalid(field) => {
                write!(f, "the runtime's answer is not valid: {field}{}", Said(detail))
            }
            ErrorKind::Code(code) => write!(f, "the runtime answered {code:?}{}", Said(detail)),
        }
    }
}

/// What was said on top, if anything.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The text without what would break a line or upset a terminal.
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
