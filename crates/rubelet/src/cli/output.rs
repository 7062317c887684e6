//! What commands print for other programs.

use serde::Serialize;

/// A form that other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Structured {
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// A value in that form.
pub(super) fn text(format: Structured, value: &impl Serialize) -> String {
    match format {
        Structured::Json => serde_json::to_string_pretty(value).unwrap_or_default() + "\n",
        // Through JSON: the types of the API have their own idea of what a number or a time is.
        Structured::Yaml => {
            let value = serde_json::to_value(value).unwrap_or_default();
            serde_saphyr::to_string(&value).unwrap_or_default()
        }
    }
}
