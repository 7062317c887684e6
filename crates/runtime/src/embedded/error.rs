//! What can go wrong, and the one place that turns it into a gRPC status.

use tonic::{Code, Status};

/// An operation that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named object does not exist.
    #[error("{kind} {id:?} not found")]
    NotFound {
        /// `container`, `pod sandbox` or `image`.
        kind: &'static str,
        /// As the caller spelt it.
        id: String,
    },
    /// A shortened id fits more than one object.
    #[error("{kind} id {id:?} is ambiguous: give more characters of it")]
    Ambiguous {
        /// `container` or `pod sandbox`.
        kind: &'static str,
        /// As the caller spelt it.
        id: String,
    },
    /// The same name, namespace, uid and attempt is in use.
    #[error("name {name:?} is reserved for {holder:?}")]
    NameTaken {
        /// The composed name.
        name: String,
        /// Who has it.
        holder: String,
    },
    /// The object is not in a state that allows this.
    #[error("{0}")]
    State(String),
    /// The request makes no sense.
    #[error("{field}: {problem}")]
    Invalid {
        /// Path of the field in the request.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The request makes sense, but this runtime or this machine cannot do it.
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
        /// What took so long.
        what: String,
        /// How long it was allowed to take.
        seconds: i64,
    },
    /// There is no room for it, at present.
    #[error("{problem}")]
    Full {
        /// What there is enough of already, and what to do.
        problem: String,
    },
    /// The container could not be started.
    #[error("failed to start container {id}: {message}")]
    Start {
        /// The container.
        id: String,
        /// What the container runtime said.
        message: String,
    },
    /// Not root, and no user namespace to be root in.
    #[error("containers need root or a user namespace, and there is none ({source}): {advice}")]
    Rootless {
        /// What the kernel said.
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
        /// What the system said.
        source: std::io::Error,
    },
    /// The runtime is broken or stopping.
    #[error("{0}")]
    Internal(String),
}

/// The usual.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failed system call.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// A request field that makes no sense.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), problem: problem.into() }
    }

    /// A request field that cannot be honoured.
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
