//! Collects problems, with paths such as `spec.containers[0].image`.

use std::fmt;

use super::FieldError;
use crate::manifest::bounded::Bounded;
use crate::manifest::problem::beginning;

/// The path of a field.
#[derive(Clone, Debug)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn root(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn field(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub(super) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{}]", self.0, shown(key)))
    }
}

fn shown(value: &str) -> &str {
    beginning(value, 256)
}

/// The problems so far.
#[derive(Debug, Default)]
pub(super) struct Report(Bounded<FieldError>);

impl Report {
    pub(super) fn into_errors(self) -> Bounded<FieldError> {
        self.0
    }

    fn add(&mut self, error: FieldError) {
        self.0.push(|| error);
    }

    pub(super) fn required(&mut self, path: &Path, detail: &str) {
        self.add(FieldError::Required { path: path.0.clone(), detail: detail.to_owned() });
    }

    pub(super) fn invalid(&mut self, path: &Path, value: impl fmt::Display, detail: &str) {
        self.add(FieldError::Invalid {
            path: path.0.clone(),
            value: value.to_string(),
            detail: detail.to_owned(),
        });
    }

    pub(super) fn invalid_text(&mut self, path: &Path, value: &str, detail: &str) {
        self.invalid(path, format_args!("{:?}", shown(value)), detail);
    }

    pub(super) fn unsupported(&mut self, path: &Path, value: &str, supported: &'static [&'static str]) {
        self.add(FieldError::Unsupported { path: path.0.clone(), value: shown(value).to_owned(), supported });
    }

    pub(super) fn duplicate(&mut self, path: &Path, value: &str) {
        self.add(FieldError::Duplicate { path: path.0.clone(), value: shown(value).to_owned() });
    }

    pub(super) fn forbidden(&mut self, path: &Path, detail: &str) {
        self.add(FieldError::Forbidden { path: path.0.clone(), detail: detail.to_owned() });
    }

    pub(super) fn not_found(&mut self, path: &Path, value: &str) {
        self.add(FieldError::NotFound { path: path.0.clone(), value: shown(value).to_owned() });
    }

    pub(super) fn too_long(&mut self, path: &Path, limit: usize, unit: &'static str) {
        self.add(FieldError::TooLong { path: path.0.clone(), limit, unit });
    }

    /// Requires a text, if given, to be one of these.
    pub(super) fn one_of(&mut self, path: &Path, value: Option<&str>, supported: &'static [&'static str]) {
        if let Some(value) = value.filter(|value| !supported.contains(value)) {
            self.unsupported(path, value, supported);
        }
    }

    /// Requires a text, if given, to follow a rule; the rule says what is wrong.
    pub(super) fn check(
        &mut self,
        path: &Path,
        value: Option<&str>,
        rule: fn(&str) -> Result<(), &'static str>,
    ) {
        if let Some(Err(detail)) = value.map(rule) {
            self.invalid_text(path, value.unwrap_or_default(), detail);
        }
    }

    /// Requires a text to be given and to follow a rule.
    pub(super) fn require(&mut self, path: &Path, value: &str, rule: fn(&str) -> Result<(), &'static str>) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.check(path, Some(value), rule);
        }
    }

    pub(super) fn not_negative(&mut self, path: &Path, value: Option<impl Into<i64>>) {
        if let Some(value) = value.map(Into::into).filter(|value| *value < 0) {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }
}
