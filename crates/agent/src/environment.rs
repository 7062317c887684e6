//! The environment of a container: `env`, `envFrom` and `$(NAME)` expansion.

mod expansion;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, EnvVarSource};
use thiserror::Error;

use crate::downward::{DownwardError, PodFacts};
use expansion::LONGEST_TEXT;
pub use expansion::{ExpansionError, expand, expand_all_or_nothing};

/// The most that Linux gives a program in all, for environment and arguments each. Variables that repeat one another
/// grow exponentially: without a limit, a short manifest could fill the memory.
const MOST_TEXT: usize = 6 << 20;

/// The variables of a container, in the order of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
    positions: BTreeMap<String, usize>,
    /// The total size of all names and values.
    size: usize,
}

/// Why a container has no environment (`CreateContainerConfigError`).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EnvironmentError {
    /// The config map does not exist in the pod's source.
    #[error("configmap {0:?} not found")]
    NoConfigMap(String),
    /// The secret does not exist in the pod's source.
    #[error("secret {0:?} not found")]
    NoSecret(String),
    /// The config map does not have the key.
    #[error("couldn't find key {key} in ConfigMap {namespace}/{name}")]
    NoConfigMapKey {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// The secret does not have the key.
    #[error("couldn't find key {key} in Secret {namespace}/{name}")]
    NoSecretKey {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// The secret's value is not text, but a variable must be.
    #[error(
        "the value of key {key} in Secret {namespace}/{name} is not UTF-8 text, so it cannot be a variable; mount it \
         as a volume"
    )]
    NotText {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// The text is longer than any that a program can be given.
    #[error(
        "{what} is longer than {} KiB, the limit for a single string passed to a program; use a file in a volume", LONGEST_TEXT >> 10
    )]
    TooLong {
        /// The variable or argument.
        what: String,
    },
    /// There is more text than a program can be given.
    #[error("{what} are longer than {} MiB in total, the limit for what is passed to a program; use files in a volume", MOST_TEXT >> 20)]
    TooMuch {
        /// The variables, or the arguments.
        what: &'static str,
    },
    /// A reference to the pod itself does not resolve.
    #[error("variable {name}: {source}")]
    Downward {
        /// The variable.
        name: String,
        /// Why.
        source: DownwardError,
    },
}

impl Environment {
    /// Builds the environment of a container from its manifest.
    ///
    /// # Errors
    ///
    /// If something that is not optional is missing.
    pub fn of(container: &Container, facts: &PodFacts<'_>) -> Result<Self, EnvironmentError> {
        let mut environment = Self::default();
        for source in container.env_from.iter().flatten() {
            environment.add_all(source, facts)?;
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = environment.value_of(variable, container, facts)? {
                environment.set(&variable.name, value)?;
            }
        }
        Ok(environment)
    }

    /// Returns the value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.positions.get(name).map(|&position| self.variables[position].1.as_str())
    }

    /// Returns all variables.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Expands the texts of `command` or `args` with this environment.
    ///
    /// # Errors
    ///
    /// If the result is more than any program can be given.
    pub fn expand_all(&self, texts: &[String]) -> Result<Vec<String>, EnvironmentError> {
        let mut size = 0;
        let mut expanded = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let text = self.expanded(text, || format!("argument {index}"))?;
            size += text.len();
            if size > MOST_TEXT {
                return Err(EnvironmentError::TooMuch { what: "the arguments" });
            }
            expanded.push(text);
        }
        Ok(expanded)
    }

    fn expanded(&self, text: &str, what: impl FnOnce() -> String) -> Result<String, EnvironmentError> {
        expand(text, |name| self.get(name)).ok_or_else(|| EnvironmentError::TooLong { what: what() })
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), EnvironmentError> {
        if name.len() + value.len() > LONGEST_TEXT {
            return Err(EnvironmentError::TooLong { what: variable_named(name) });
        }
        if let Some(&position) = self.positions.get(name) {
            let old = std::mem::replace(&mut self.variables[position].1, value);
            self.size = self.size - old.len() + self.variables[position].1.len();
        } else {
            self.size += name.len() + value.len();
            self.positions.insert(name.to_owned(), self.variables.len());
            self.variables.push((name.to_owned(), value));
        }
        if self.size > MOST_TEXT {
            return Err(EnvironmentError::TooMuch { what: "the variables" });
        }
        Ok(())
    }

    fn add_all(&mut self, source: &EnvFromSource, facts: &PodFacts<'_>) -> Result<(), EnvironmentError> {
        let namespace = facts.namespace();
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            match facts.objects.config_map(namespace, &reference.name) {
                Some(map) => {
                    for (key, value) in map.data.iter().flatten() {
                        self.set(&format!("{prefix}{key}"), value.clone())?;
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(EnvironmentError::NoConfigMap(reference.name.clone())),
            }
        }
        if let Some(reference) = &source.secret_ref {
            match facts.objects.secret(namespace, &reference.name) {
                Some(secret) => {
                    for (key, value) in secret.data.iter().flatten() {
                        self.set(
                            &format!("{prefix}{key}"),
                            secret_text(&value.0, namespace, &reference.name, key)?,
                        )?;
                    }
                }
                None if reference.optional == Some(true) => {}
                None => return Err(EnvironmentError::NoSecret(reference.name.clone())),
            }
        }
        Ok(())
    }

    fn value_of(
        &self,
        variable: &EnvVar,
        container: &Container,
        facts: &PodFacts<'_>,
    ) -> Result<Option<String>, EnvironmentError> {
        match (variable.value.as_deref().filter(|value| !value.is_empty()), &variable.value_from) {
            (Some(value), _) => self.expanded(value, || variable_named(&variable.name)).map(Some),
            (None, None) => Ok(Some(String::new())),
            (None, Some(from)) => referenced(&variable.name, from, container, facts),
        }
    }
}

/// Describes a variable; its name comes from the manifest and may be of any length.
fn variable_named(name: &str) -> String {
    format!("variable {}", name.chars().take(64).collect::<String>())
}

fn referenced(
    name: &str,
    from: &EnvVarSource,
    container: &Container,
    facts: &PodFacts<'_>,
) -> Result<Option<String>, EnvironmentError> {
    let namespace = facts.namespace();
    let downward = |source| EnvironmentError::Downward { name: name.to_owned(), source };
    if let Some(field) = &from.field_ref {
        return facts.field(&field.field_path).map(Some).map_err(downward);
    }
    if let Some(selector) = &from.resource_field_ref {
        return facts.resource(selector, Some(container)).map(Some).map_err(downward);
    }
    if let Some(reference) = &from.config_map_key_ref {
        let optional = reference.optional == Some(true);
        let Some(map) = facts.objects.config_map(namespace, &reference.name) else {
            return if optional {
                Ok(None)
            } else {
                Err(EnvironmentError::NoConfigMap(reference.name.clone()))
            };
        };
        return match map.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => Ok(Some(value.clone())),
            None if optional => Ok(None),
            None => Err(EnvironmentError::NoConfigMapKey {
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
                key: reference.key.clone(),
            }),
        };
    }
    if let Some(reference) = &from.secret_key_ref {
        let optional = reference.optional == Some(true);
        let Some(secret) = facts.objects.secret(namespace, &reference.name) else {
            return if optional { Ok(None) } else { Err(EnvironmentError::NoSecret(reference.name.clone())) };
        };
        return match secret.data.as_ref().and_then(|data| data.get(&reference.key)) {
            Some(value) => secret_text(&value.0, namespace, &reference.name, &reference.key).map(Some),
            None if optional => Ok(None),
            None => Err(EnvironmentError::NoSecretKey {
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
                key: reference.key.clone(),
            }),
        };
    }
    Ok(Some(String::new()))
}

fn secret_text(value: &[u8], namespace: &str, name: &str, key: &str) -> Result<String, EnvironmentError> {
    String::from_utf8(value.to_vec()).map_err(|_| EnvironmentError::NotText {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        key: key.to_owned(),
    })
}

#[cfg(test)]
mod tests;
