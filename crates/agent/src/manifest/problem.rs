//! The problems of a manifest, as values: for logs, for `describe` and for the terminal.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use thiserror::Error;

/// Whether the manifest can be used nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The manifest is used, but some of it does not mean what its author may think.
    Warning,
    /// The manifest is not used; what was started from its last good version keeps running.
    Error,
}

/// One problem, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file or URL.
    pub place: Arc<str>,
    /// The document in the file, counted from 1 without empty ones; `None` if the problem concerns the whole file.
    pub document: Option<usize>,
    /// The line in the file, counted from 1.
    pub line: Option<u32>,
    /// The object concerned, such as `Pod default/web`, if that could be read.
    pub subject: Option<String>,
    /// Whether the file is used nevertheless.
    pub severity: Severity,
    /// What is wrong.
    pub issue: Issue,
}

impl Problem {
    /// Creates a problem that keeps what is in `place` from being used.
    pub fn error(place: impl Into<Arc<str>>, issue: Issue) -> Self {
        Self {
            place: place.into(),
            document: None,
            line: None,
            subject: None,
            severity: Severity::Error,
            issue,
        }
    }

    /// Creates a remark about `place`.
    pub fn warning(place: impl Into<Arc<str>>, issue: Issue) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, issue) }
    }

    /// Returns the same problem, concerning `subject`.
    #[must_use]
    pub fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }
}

impl fmt::Display for Problem {
    /// Writes, for example, `web.yaml:12 (document 2, Pod default/web): spec.containers[0].image: Required value`.
    ///
    /// Much of this comes from the file and may be shown on a terminal, so control characters are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Printable(f);
        f.write_str(&self.place)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match (self.document, &self.subject) {
            (Some(document), Some(subject)) => write!(f, " (document {document}, {subject})")?,
            (Some(document), None) => write!(f, " (document {document})")?,
            (None, Some(subject)) => write!(f, " ({subject})")?,
            (None, None) => {}
        }
        write!(f, ": {}", self.issue)
    }
}

/// Replaces control characters with the replacement character.
struct Printable<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(char::is_control) {
            match piece.strip_suffix(char::is_control) {
                Some(rest) => write!(self.0, "{rest}\u{fffd}")?,
                None => self.0.write_str(piece)?,
            }
        }
        Ok(())
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Issue {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is still open for writing.
    #[error(
        "still open for writing; it will be read once it is closed (`fuser -v FILE` shows by which program)"
    )]
    BeingWritten,
    /// There is nothing at this path any more.
    #[error("is gone, so its pods are stopped; they start again when it is back")]
    Missing,
    /// It is neither a regular file nor a folder of them.
    #[error("is neither a regular file nor a folder")]
    NotAFile,
    /// The file is too large.
    #[error("is larger than {} MiB, the limit for a manifest", .limit >> 20)]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// It has too many pods.
    #[error("has more than {limit} pods, the limit for a manifest")]
    TooManyPods {
        /// The most that it may have.
        limit: usize,
    },
    /// The server did not return a manifest.
    #[error("the server answered {0}")]
    Refused(String),
    /// It is neither YAML nor JSON, or it exceeds the limits for them.
    #[error("{0}")]
    Syntax(String),
    /// It has no documents.
    #[error("contains no document; write a Pod or an empty PodList, or remove it")]
    Empty,
    /// It has only objects that no other pods can see.
    #[error(
        "its config maps and secrets are unused: they serve only pods of the same path or URL, and there are none; \
         put both in one folder"
    )]
    ServesNobody,
    /// The document is not an object of a known kind.
    #[error("{found} is not supported here; {}", meant_or_all(.meant))]
    Kind {
        /// The kind it claims to be, such as `apps/v1 Deployment`.
        found: String,
        /// A known kind with a similar spelling.
        meant: Option<&'static str>,
    },
    /// A field has a value of the wrong type.
    #[error("{path}: {message}")]
    Type {
        /// The field.
        path: String,
        /// What was expected.
        message: String,
    },
    /// A field that this type of object does not have.
    #[error("{path}: unknown field, ignored{}", .meant.as_ref().map(|field| format!("; did you mean {field:?}?")).unwrap_or_default())]
    UnknownField {
        /// The field.
        path: String,
        /// A known field with a similar spelling.
        meant: Option<&'static str>,
    },
    /// A field that has a meaning in a cluster, but none here.
    #[error("{path}: ignored: {what}")]
    IgnoredField {
        /// The field.
        path: String,
        /// What happens instead.
        what: &'static str,
    },
    /// A field that works, but hardly in the way its author hopes.
    #[error("{path}: {what}")]
    FieldInVain {
        /// The field.
        path: String,
        /// What happens.
        what: &'static str,
    },
    /// A value that the API server would refuse.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Another object of that kind has the same name.
    #[error("FailedValidation: another object has this name; this one is ignored")]
    Duplicate,
    /// Another object of that kind, in that place, has the same name.
    #[error("FailedValidation: the name is already taken by {0}; this one is ignored")]
    DuplicateOf(String),
    /// The file has more problems than anybody would read.
    #[error("{count} more problems not shown")]
    LeftOut {
        /// How many were left out.
        count: usize,
    },
    /// Another pod has the same UID.
    #[error("FailedValidation: another pod has the UID {0}; this one is ignored")]
    DuplicateUid(String),
}

/// A value that is not allowed, in the API server's words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum FieldError {
    /// It is required.
    #[error("{path}: Required value{}", after_colon(.detail))]
    Required {
        /// The field.
        path: String,
        /// Why.
        detail: String,
    },
    /// Its value is wrong.
    #[error("{path}: Invalid value: {value}{}", after_colon(.detail))]
    Invalid {
        /// The field.
        path: String,
        /// Its value, with strings in quotes.
        value: String,
        /// What is allowed.
        detail: String,
    },
    /// Its value is not one of the supported ones.
    #[error("{path}: Unsupported value: {value:?}: supported values: {}", quoted(.supported))]
    Unsupported {
        /// The field.
        path: String,
        /// Its value.
        value: String,
        /// The supported values.
        supported: &'static [&'static str],
    },
    /// Another item has the same value.
    #[error("{path}: Duplicate value: {value:?}")]
    Duplicate {
        /// The field.
        path: String,
        /// The value.
        value: String,
    },
    /// It must not be given here.
    #[error("{path}: Forbidden: {detail}")]
    Forbidden {
        /// The field.
        path: String,
        /// Why.
        detail: String,
    },
    /// It names something that does not exist.
    #[error("{path}: Not found: {value:?}")]
    NotFound {
        /// The field.
        path: String,
        /// The name.
        value: String,
    },
    /// It is too long.
    #[error("{path}: Too long: may not be more than {limit} {unit}")]
    TooLong {
        /// The field.
        path: String,
        /// The most that is allowed.
        limit: usize,
        /// The unit of the limit.
        unit: &'static str,
    },
}

impl FieldError {
    /// Returns the path of the field that is wrong.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Required { path, .. }
            | Self::Invalid { path, .. }
            | Self::Unsupported { path, .. }
            | Self::Duplicate { path, .. }
            | Self::Forbidden { path, .. }
            | Self::NotFound { path, .. }
            | Self::TooLong { path, .. } => path,
        }
    }
}

/// Returns the beginning of a text that may be as long as the file it comes from: at most `most` bytes.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn meant_or_all(meant: &Option<&'static str>) -> String {
    match meant {
        Some(kind) => format!("did you mean {kind:?}?"),
        None => {
            "a manifest may contain v1 objects of kind Pod, PodList, List, ConfigMap and Secret".to_owned()
        }
    }
}

fn after_colon(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

fn quoted(values: &[&str]) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ")
}
