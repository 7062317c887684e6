//! What can go wrong, and the only place that turns it into a gRPC status.

use tonic::{Code, Status};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named object does not exist.
    #[error("{kind} {id:?} not found")]
    NotFound {
        /// `container`, `pod sandbox` or `image`.
        kind: &'static str,
        /// The id as the caller wrote it.
        id: String,
    },
    /// A shortened id matches more than one object.
    #[error("{kind} id {id:?} is ambiguous: give more characters of it")]
    Ambiguous {
        /// `container` or `pod sandbox`.
        kind: &'static str,
        /// The id as the caller wrote it.
        id: String,
    },
    /// The combination of name, namespace, uid and attempt is in use.
    #[error("name {name:?} is reserved for {holder:?}")]
    NameTaken {
        /// The composed name.
        name: String,
        /// The object that has the name.
        holder: String,
    },
    /// The object is not in a state that allows this.
    #[error("{0}")]
    State(String),
    /// The request is invalid.
    #[error("{field}: {problem}")]
    Invalid {
        /// Path of the field in the request.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The request is valid, but this runtime or this machine does not support it.
    #[error("{field}: {problem}")]
    Unsupported {
        /// Path of the field in the request.
        field: String,
        /// What is missing.
        problem: String,
    },
    /// A command in a container did not end in time.
    #[error("timed out after {seconds} s: {what}")]
    Timeout {
        /// The command that took too long.
        what: String,
        /// The time limit.
        seconds: i64,
    },
    /// There is no room for it at the moment.
    #[error("{problem}")]
    Full {
        /// What has reached its limit, and what to do.
        problem: String,
    },
    /// The container could not be started.
    #[error("failed to start container {id}: {message}")]
    Start {
        /// Id of the container.
        id: String,
        /// Why it could not be started.
        message: String,
    },
    /// This process is not root, and there is no user namespace to be root in.
    #[error("containers need root or a user namespace, and there is none ({source}): {advice}")]
    Rootless {
        /// The kernel's error.
        source: std::io::Error,
        /// What would help.
        advice: &'static str,
    },
    /// The pod's network could not be set up or taken down.
    #[error("network: {0}")]
    Network(String),
    /// The image store failed.
    #[error("image: {0}")]
    Image(String),
    /// A system call failed.
    #[error("failed to {what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The runtime is broken or shutting down.
    #[error("{0}")]
    Internal(String),
}

/// The usual result of an operation.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps a failed system call.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Names a request field that is invalid.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), problem: problem.into() }
    }

    /// Names a request field that is not supported.
    pub(crate) fn unsupported(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unsupported { field: field.into(), problem: problem.into() }
    }

    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Ambiguous { .. } | Self::Invalid { .. } => Code::InvalidArgument,
            Self::NameTaken { .. } => Code::AlreadyExists,
            Self::State(_) | Self::Rootless { .. } => Code::FailedPrecondition,
            Self::Unsupported { .. } => Code::Unimplemented,
            Self::Timeout { .. } => Code::DeadlineExceeded,
            Self::Full { .. } => Code::ResourceExhausted,
            Self::Start { .. } | Self::Network(_) | Self::Image(_) | Self::Io { .. } => Code::Unknown,
            Self::Internal(_) => Code::Internal,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Status::new(error.code(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_names_its_subject_and_maps_to_one_code() {
        let cases = [
            (
                Error::NotFound { kind: "container", id: "x".into() },
                Code::NotFound,
                "container \"x\" not found",
            ),
            (Error::invalid("linux.x", "is odd"), Code::InvalidArgument, "linux.x: is odd"),
            (Error::unsupported("linux.y", "no"), Code::Unimplemented, "linux.y: no"),
            (Error::State("busy".into()), Code::FailedPrecondition, "busy"),
        ];
        for (error, code, text) in cases {
            let status = Status::from(error);
            assert_eq!((status.code(), status.message()), (code, text));
        }
    }
}
