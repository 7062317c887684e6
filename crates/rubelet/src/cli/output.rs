//! Output of commands for other programs.

use serde::Serialize;

/// A machine-readable format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Structured {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Formats a value.
pub(super) fn text(format: Structured, value: &impl Serialize) -> String {
    match format {
        Structured::Json => serde_json::to_string_pretty(value).unwrap_or_default() + "\n",
        // By way of JSON, because the API types serialize numbers and times in a special way.
        Structured::Yaml => {
            let value = serde_json::to_value(value).unwrap_or_default();
            serde_saphyr::to_string(&value).unwrap_or_default()
        }
    }
}
