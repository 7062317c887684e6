//! Identifiers. Each is its own type, so that a sandbox id cannot be passed where a container id is meant.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Cloning is a reference count; comparing and hashing go by the text.
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
    /// What tells one pod of this node from another: its Kubernetes UID, or the id of its sandbox when the
    /// runtime was given none (a pod made by hand).
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

/// A pod by key and by the names that people use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// The key.
    pub uid: PodUid,
    /// Its Kubernetes namespace; empty when the runtime was not told.
    pub namespace: Arc<str>,
    /// Its name; empty when the runtime was not told.
    pub name: Arc<str>,
}

impl PodRef {
    /// A pod by key, namespace and name.
    pub fn new(uid: impl Into<PodUid>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { uid: uid.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodRef {
    /// `namespace/name`, or the key of a pod without a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            fmt::Display::fmt(&self.uid, f)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}
