//! Identifiers. Each kind is a type of its own, so that a sandbox id cannot be passed where a container id is meant.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Cloning only increments a reference count; comparison and hashing use the text.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as the runtime spells it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl From<$name> for Arc<str> {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.as_str().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

id_type! {
    /// Identifies a pod on this node: its Kubernetes UID, or the id of its sandbox if the runtime was given no UID (as
    /// for a pod created by hand).
    PodUid
}
id_type! {
    /// A pod sandbox, as the runtime names it.
    SandboxId
}
id_type! {
    /// A container, as the runtime names it.
    ContainerId
}

/// A pod, by its key and by the names that people use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// The key.
    pub uid: PodUid,
    /// Its Kubernetes namespace; empty if the runtime was not given one.
    pub namespace: Arc<str>,
    /// Its name; empty if the runtime was not given one.
    pub name: Arc<str>,
}

impl PodRef {
    /// Creates a reference to a pod from its key, namespace and name.
    pub fn new(uid: impl Into<PodUid>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { uid: uid.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodRef {
    /// Writes `namespace/name`, or the key if the pod has no name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            fmt::Display::fmt(&self.uid, f)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
