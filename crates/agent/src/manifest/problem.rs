//! What can be wrong with a manifest, as values: for logs, for `describe` and for the terminal.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use thiserror::Error;

/// Whether the manifest can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is used, but not all of it means what its author may think.
    Warning,
    /// It is not used; what ran from its last good version goes on.
    Error,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file or URL.
    pub place: Arc<str>,
    /// Which document of the file, from 1, empty ones not counted; none if it is about the whole file.
    pub document: Option<usize>,
    /// Which line of the file, from 1.
    pub line: Option<u32>,
    /// What it is about, like `Pod default/web`, if that could be read.
    pub subject: Option<String>,
    /// Whether the file is used.
    pub severity: Severity,
    /// What is wrong.
    pub issue: Issue,
}

impl Problem {
    /// A reason not to use what is in `place`.
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

    /// A remark about `place`.
    pub fn warning(place: impl Into<Arc<str>>, issue: Issue) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, issue) }
    }

    /// The same, about `subject`.
    #[must_use]
    pub fn about(self, subject: impl Into<String>) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }
}

impl fmt::Display for Problem {
    /// `web.yaml:12 (document 2, Pod default/web): spec.containers[0].image: Required value`
    ///
    /// Much of it comes from the file, and may be shown on a terminal: control characters are not.
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

/// Writes control characters as what stands for characters that cannot be shown.
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
    /// Somebody has not finished writing it.
    #[error(
        "still open for writing; it will be read once it is closed (`fuser -v FILE` shows by which program)"
    )]
    BeingWritten,
    /// It is neither a regular file nor a folder of them.
    #[error("is neither a regular file nor a folder")]
    NotAFile,
    /// The file is too large.
    #[error("is larger than {} MiB, the limit for a manifest", .limit >> 20)]
    TooLarge {
        /// In bytes.
        limit: usize,
    },
    /// There are too many pods in it.
    #[error("has more than {limit} pods, the limit for a manifest")]
    TooManyPods {
        /// As many as there may be.
        limit: usize,
    },
    /// The server did not give a manifest.
    #[error("the server answered {0}")]
    Refused(String),
    /// It is not YAML or JSON, or it is beyond the limits for it.
    #[error("{0}")]
    Syntax(String),
    /// There is no document in it.
    #[error("contains no document; write a Pod or an empty PodList, or remove it")]
    Empty,
    /// There are only objects in it that other pods cannot see.
    #[error(
        "its config maps and secrets are unused: they serve only pods of the same path or URL, and there are none; \
         put both in one folder"
    )]
    ServesNobody,
    /// The document is not an object of a kind we know.
    #[error("{found} is not supported here; {}", meant_or_all(.meant))]
    Kind {
        /// What it says it is, like `apps/v1 Deployment`.
        found: String,
        /// A kind that we know and that is spelled alike.
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
    /// A field that no such object has.
    #[error("{path}: unknown field, ignored{}", .meant.as_ref().map(|field| format!("; did you mean {field:?}?")).unwrap_or_default())]
    UnknownField {
        /// The field.
        path: String,
        /// A field that is spelled alike.
        meant: Option<&'static str>,
    },
    /// A field that means something in a cluster, but nothing here.
    #[error("{path}: ignored: {what}")]
    IgnoredField {
        /// The field.
        path: String,
        /// What happens instead.
        what: &'static str,
    },
    /// A field that works, but hardly as its author hopes.
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
    /// Another object of that kind has the name.
    #[error("FailedValidation: another object has this name; this one is ignored")]
    Duplicate,
    /// Another object of that kind has the name, in that place.
    #[error("FailedValidation: the name is already taken by {0}; this one is ignored")]
    DuplicateOf(String),
    /// There is more to tell of the file than anybody reads.
    #[error("{count} more problems not shown")]
    LeftOut {
        /// How much.
        count: usize,
    },
    /// Another pod has the UID.
    #[error("FailedValidation: another pod has the UID {0}; this one is ignored")]
    DuplicateUid(String),
}

/// A value that is not allowed, in the words of the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum FieldError {
    /// It must be given.
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
        /// Its value, strings in quotes.
        value: String,
        /// What is allowed.
        detail: String,
    },
    /// Its value is not one of those that exist.
    #[error("{path}: Unsupported value: {value:?}: supported values: {}", quoted(.supported))]
    Unsupported {
        /// The field.
        path: String,
        /// Its value.
        value: String,
        /// Those that exist.
        supported: &'static [&'static str],
    },
    /// Another one has that value.
    #[error("{path}: Duplicate value: {value:?}")]
    Duplicate {
        /// The field.
        path: String,
        /// The value.
        value: String,
    },
    /// It may not be given here.
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
    /// There is too much of it.
    #[error("{path}: Too long: may not be more than {limit} {unit}")]
    TooLong {
        /// The field.
        path: String,
        /// How much there may be.
        limit: usize,
        /// Of what.
        unit: &'static str,
    },
}

impl FieldError {
    /// The field that is wrong.
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

/// The beginning of a text that may be as long as the file it comes from: at most so many bytes.
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
