//! The fields of a configuration file, taken one by one; those that remain are unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use rubelet_cri::{Endpoint, EndpointError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ConfigError;

/// The fields that have not been taken yet.
pub(super) struct Fields(BTreeMap<String, Value>);

impl Fields {
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        serde_saphyr::from_str(text).map(Self).map_err(|error| ConfigError::NotYaml(error.to_string()))
    }

    /// Takes the value of a field, if it is present and not null.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.0.remove(field).filter(|value| !value.is_null()) else { return Ok(None) };
        serde_json::from_value(value).map(Some).map_err(|error| wrong(field, &error))
    }

    /// Takes the value of a field for which zero means the default.
    pub(super) fn amount<T: DeserializeOwned + Default + PartialEq>(
        &mut self,
        field: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        Ok(self.take::<T>(field)?.filter(|value| *value != T::default()))
    }

    /// Takes a duration. Zero means the default, since generated files are full of zeros.
    pub(super) fn duration(&mut self, field: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.amount::<String>(field)? else { return Ok(None) };
        Ok(Some(read_duration(field, &text)?).filter(|duration| !duration.is_zero()))
    }

    /// Takes a duration inside another field. Here zero is an ordinary value.
    pub(super) fn nested_duration(
        &mut self,
        field: &'static str,
        inner: &'static str,
    ) -> Result<Option<Duration>, ConfigError> {
        let Some(mut nested) = self.take::<BTreeMap<String, String>>(field)? else { return Ok(None) };
        nested.remove(inner).map(|text| read_duration(inner, &text)).transpose()
    }

    pub(super) fn endpoint(&mut self, field: &'static str) -> Result<Option<Endpoint>, ConfigError> {
        let Some(text) = self.amount::<String>(field)? else { return Ok(None) };
        text.parse().map(Some).map_err(|error: EndpointError| wrong(field, &error))
    }

    /// Returns the names of the fields that were not taken, except those with empty values.
    pub(super) fn left(self) -> impl Iterator<Item = String> {
        self.0.into_iter().filter(|(_, value)| !says_nothing(value)).map(|(field, _)| field)
    }
}

/// Whether a value is one that programs write for "not set".
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn read_duration(field: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| wrong(field, &error))?;
    Duration::try_from(duration).map_err(|error| wrong(field, &error))
}

pub(super) fn wrong(field: &'static str, why: &dyn std::fmt::Display) -> ConfigError {
    ConfigError::Field { field, why: why.to_string() }
}
