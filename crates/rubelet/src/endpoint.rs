//! The runtime that a command talks to.

use std::fmt;
use std::time::Duration;

use rubelet_cri::{Endpoint, EndpointError, Error, ErrorKind, Metrics, Options, RuntimeClient};

use crate::exit::Failure;

/// The default sockets of runtimes, in the order in which they are tried.
const KNOWN: [&str; 7] = [
    "unix:///run/containerd/containerd.sock",
    "unix:///run/crio/crio.sock",
    "unix:///run/k3s/containerd/containerd.sock",
    "unix:///run/k0s/containerd.sock",
    "unix:///run/cri-dockerd.sock",
    // The embedded runtime: run alone, and inside `rubelet run`.
    "unix:///run/rubelet/runtime.sock",
    "unix:///var/lib/rubelet/runtime.sock",
];

/// How to find the runtime. For commands that only read: what changes something must be told where.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RuntimeArgs {
    /// The runtime's CRI socket [default: `$CONTAINER_RUNTIME_ENDPOINT`, else the first known socket that answers]
    #[arg(long, short = 'r', value_name = "unix:///PATH")]
    runtime_endpoint: Option<Endpoint>,
}

/// The variable that names the runtime when no argument does. If it is empty, it counts as unset.
pub(crate) const ENVIRONMENT: &str = "CONTAINER_RUNTIME_ENDPOINT";

/// Returns the runtime that the environment names, if any.
pub(crate) fn endpoint_of_environment() -> Result<Option<Endpoint>, EndpointError> {
    let text = std::env::var(ENVIRONMENT).ok().filter(|text| !text.trim().is_empty());
    text.map(|text| text.parse()).transpose()
}

/// A runtime that has answered.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) client: RuntimeClient,
    pub(crate) runtime: Runtime,
    /// Whether the runtime was found by search, because none was named.
    pub(crate) was_searched: bool,
}

/// The name and version that a runtime reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runtime {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// Why no runtime was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotFound {
    /// The value of the environment variable is not an endpoint.
    #[error("{ENVIRONMENT}: {0}")]
    BadEnvironment(EndpointError),
    /// The named runtime does not answer.
    #[error("{}", .0.explanation())]
    Named(Error),
    /// None of the known sockets answers.
    #[error("no container runtime answers; give its socket with --runtime-endpoint\n{0}")]
    Searched(Tried),
}

/// The error for every socket that was tried.
#[derive(Debug)]
pub(crate) struct Tried(Vec<Error>);

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (absent, present): (Vec<&Error>, Vec<&Error>) =
            self.0.iter().partition(|error| error.kind() == ErrorKind::NoSocket);
        if present.is_empty() {
            let paths: Vec<String> =
                absent.iter().map(|error| error.endpoint().path().display().to_string()).collect();
            return write!(f, "none of these sockets exists: {}", paths.join(", "));
        }
        for (number, error) in present.into_iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", error.explanation())?;
        }
        Ok(())
    }
}

impl NotFound {
    /// Returns the endpoint at which nothing answers, if one was named, or if something listens there without
    /// answering.
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::Named(error) => Some(error.endpoint()),
            Self::BadEnvironment(_) | Self::Searched(_) => self.silence().map(Error::endpoint),
        }
    }

    /// Returns the error if something listens but did not answer in time.
    pub(crate) fn silence(&self) -> Option<&Error> {
        let tried = match self {
            Self::BadEnvironment(_) => &[][..],
            Self::Named(error) => std::slice::from_ref(error),
            Self::Searched(Tried(errors)) => errors,
        };
        tried.iter().find(|error| matches!(error.kind(), ErrorKind::Silent | ErrorKind::Deadline))
    }

    /// The exit code for it.
    pub(crate) fn failure(&self) -> Failure {
        match self {
            Self::BadEnvironment(_) => Failure::Usage,
            Self::Named(_) | Self::Searched(_) => Failure::Runtime,
        }
    }
}

impl RuntimeArgs {
    /// Returns the arguments as if the command line had named this endpoint.
    pub(crate) fn named(endpoint: Endpoint) -> Self {
        Self { runtime_endpoint: Some(endpoint) }
    }

    /// Whether the command line names the runtime.
    pub(crate) fn is_given(&self) -> bool {
        self.runtime_endpoint.is_some()
    }

    /// Finds the runtime, and asks for its version.
    pub(crate) async fn find(&self) -> Result<Found, NotFound> {
        self.find_within(Duration::MAX).await
    }

    /// Finds the runtime, and asks for its version. Each attempt may take this long.
    pub(crate) async fn find_within(&self, limit: Duration) -> Result<Found, NotFound> {
        let named = match &self.runtime_endpoint {
            Some(endpoint) => Some(endpoint.clone()),
            None => endpoint_of_environment().map_err(NotFound::BadEnvironment)?,
        };
        if let Some(endpoint) = named {
            return greet(endpoint, false, limit).await.map_err(NotFound::Named);
        }
        let mut tried = Vec::new();
        for endpoint in KNOWN {
            let endpoint: Endpoint = endpoint.parse().expect("the known endpoints are well formed");
            match greet(endpoint, true, limit).await {
                Ok(found) => return Ok(found),
                Err(error) => tried.push(error),
            }
        }
        Err(NotFound::Searched(Tried(tried)))
    }
}

async fn greet(endpoint: Endpoint, was_searched: bool, limit: Duration) -> Result<Found, Error> {
    let mut hasty = Options::default();
    hasty.connect_timeout = hasty.connect_timeout.min(limit);
    hasty.inspect_timeout = hasty.inspect_timeout.min(limit);
    let version = RuntimeClient::new(endpoint.clone(), hasty, Metrics::default()).version().await?;
    let client = RuntimeClient::new(endpoint, Options::default(), Metrics::default());
    let runtime = Runtime { name: version.runtime_name, version: version.runtime_version };
    Ok(Found { client, runtime, was_searched })
}
