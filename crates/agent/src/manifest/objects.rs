//! The config maps and secrets that come with the pods of a source.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::{Deserialize, Serialize};

/// The namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// Creates the key of the object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The objects that the pods of one source may refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// Config maps.
    pub config_maps: BTreeMap<ObjectKey, Arc<ConfigMap>>,
    /// Secrets; `stringData` is already merged into `data`.
    pub secrets: BTreeMap<ObjectKey, Arc<Secret>>,
}

impl Objects {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.config_maps.is_empty() && self.secrets.is_empty()
    }

    /// Whether the other has the very same objects, not merely equal ones.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        fn same<T>(ours: &BTreeMap<ObjectKey, Arc<T>>, theirs: &BTreeMap<ObjectKey, Arc<T>>) -> bool {
            let mut pairs = ours.iter().zip(theirs);
            ours.len() == theirs.len()
                && pairs.all(|((key, one), (other_key, other))| key == other_key && Arc::ptr_eq(one, other))
        }
        same(&self.config_maps, &other.config_maps) && same(&self.secrets, &other.secrets)
    }

    /// Returns a config map.
    #[must_use]
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&ConfigMap> {
        self.config_maps.get(&ObjectKey::new(namespace, name)).map(Arc::as_ref)
    }

    /// Returns a secret.
    #[must_use]
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
        self.secrets.get(&ObjectKey::new(namespace, name)).map(Arc::as_ref)
    }
}
