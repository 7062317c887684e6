//! The manifest URL with its headers. Header values may be credentials, so nothing here shows them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::ConfigError;
use super::fields::{Fields, wrong};

const HEADERS: &str = "staticPodURLHeader";

/// A URL that serves manifests.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ConfiguredUrl {
    pub(crate) url: String,
    /// Headers for this URL only.
    pub(crate) headers: Vec<(String, String)>,
}

impl ConfiguredUrl {
    pub(super) fn take(fields: &mut Fields) -> Result<Option<Self>, ConfigError> {
        let url = fields.amount::<String>("staticPodURL")?;
        let headers = headers(fields.take::<Value>(HEADERS)?)?;
        match url {
            None if !headers.is_empty() => Err(wrong(HEADERS, &"needs staticPodURL")),
            url => Ok(url.map(|url| Self { url, headers })),
        }
    }
}

/// Reads the headers. A deserializer's error message contains the offending value, so the message is left out.
fn headers(given: Option<Value>) -> Result<Vec<(String, String)>, ConfigError> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let by_name: BTreeMap<String, Vec<String>> = serde_json::from_value(given)
        .map_err(|_| wrong(HEADERS, &"must have a list of strings for each name"))?;
    let each =
        |(name, values): (String, Vec<String>)| values.into_iter().map(move |value| (name.clone(), value));
    Ok(by_name.into_iter().flat_map(each).collect())
}

impl fmt::Debug for ConfiguredUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ConfiguredUrl").field("url", &self.url).field("headers", &names).finish()
    }
}
