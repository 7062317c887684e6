//! The address of a runtime.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The longest path that fits into a unix socket address.
const LONGEST_PATH: usize = 107;

/// The unix socket of a CRI runtime.
///
/// ```
/// let endpoint: rubelet_cri::Endpoint = "unix:///run/containerd/containerd.sock".parse()?;
/// assert_eq!(endpoint.path().to_str(), Some("/run/containerd/containerd.sock"));
/// assert_eq!("/run/crio/crio.sock".parse::<rubelet_cri::Endpoint>()?.to_string(), "unix:///run/crio/crio.sock");
/// # Ok::<(), rubelet_cri::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(Arc<Path>);

impl Endpoint {
    /// Creates the endpoint of the socket at an absolute path.
    pub fn from_path(path: impl Into<PathBuf>) -> Result<Self, EndpointError> {
        let path = path.into();
        let length = path.as_os_str().len();
        if length == 0 {
            return Err(EndpointError::Empty);
        }
        if !path.is_absolute() {
            return Err(EndpointError::Relative { path: path.display().to_string() });
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(EndpointError::Nul);
        }
        if length > LONGEST_PATH {
            return Err(EndpointError::TooLong { path: path.display().to_string(), length });
        }
        Ok(Self(path.into()))
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Parses `unix:///path`, `unix:/path` or an absolute path.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return Self::from_path(rest.strip_prefix("//").unwrap_or(rest));
        }
        match text.split_once("://") {
            Some((scheme, _)) => Err(EndpointError::Scheme { scheme: scheme.to_owned() }),
            None => Self::from_path(text),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}

/// Why a string does not name an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The string is empty.
    #[error("the runtime endpoint is empty; write unix:///path/of/the.sock")]
    Empty,
    /// The scheme is not `unix`.
    #[error("runtime endpoints of scheme {scheme:?} are not supported; write unix:///path/of/the.sock")]
    Scheme {
        /// The scheme that was given.
        scheme: String,
    },
    /// The path is relative, so it would depend on the working directory.
    #[error("the runtime endpoint {path:?} is not an absolute path; write unix:///path/of/the.sock")]
    Relative {
        /// The path that was given.
        path: String,
    },
    /// The path is longer than a socket address can hold.
    #[error(
        "the runtime endpoint path {path:?} is {length} bytes long; a unix socket path may have {LONGEST_PATH}"
    )]
    TooLong {
        /// The path that was given.
        path: String,
        /// Its length in bytes.
        length: usize,
    },
    /// The path contains a NUL byte, which no path can.
    #[error("the runtime endpoint path contains a NUL byte")]
    Nul,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_spellings_mean_the_same() {
        let wanted = Endpoint::from_path("/run/x.sock").unwrap();
        for text in ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock", " unix:///run/x.sock\n"] {
            assert_eq!(text.parse(), Ok(wanted.clone()), "{text:?}");
        }
        assert_eq!(wanted.to_string(), "unix:///run/x.sock");
    }

    #[test]
    fn what_is_not_a_unix_socket_is_refused_with_advice() {
        type Expected = fn(&EndpointError) -> bool;
        let cases: [(&str, Expected); 9] = [
            ("", |e| matches!(e, EndpointError::Empty)),
            ("  ", |e| matches!(e, EndpointError::Empty)),
            ("unix://", |e| matches!(e, EndpointError::Empty)),
            ("unix:", |e| matches!(e, EndpointError::Empty)),
            ("tcp://127.0.0.1:1", |e| matches!(e, EndpointError::Scheme { scheme } if scheme == "tcp")),
            ("npipe:////./pipe/x", |e| matches!(e, EndpointError::Scheme { .. })),
            ("run/x.sock", |e| matches!(e, EndpointError::Relative { .. })),
            ("unix://run/x.sock", |e| matches!(e, EndpointError::Relative { .. })),
            ("/run/\0.sock", |e| matches!(e, EndpointError::Nul)),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Endpoint>().expect_err(text);
            assert!(expected(&error), "{text:?} gave {error:?}");
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn the_longest_path_that_fits_is_accepted_and_one_more_is_not() {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert!(path(107).parse::<Endpoint>().is_ok());
        assert!(matches!(path(108).parse::<Endpoint>(), Err(EndpointError::TooLong { length: 108, .. })));
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_read_back_from_its_display(text in ".{0,60}") {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            }
        }
    }
}
