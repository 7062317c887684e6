//! The parts of a diagnosis.

use rubelet_model::PodRef;
use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Worth knowing.
    Note,
    /// Will do harm sooner or later.
    Warning,
    /// May do harm; there was not enough time to find out.
    Unclear,
    /// Does harm now.
    Problem,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// A stable name for programs.
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    /// What is wrong, in one sentence.
    pub(crate) what: String,
    /// What was observed.
    pub(crate) evidence: String,
    /// What to do about it.
    pub(crate) advice: &'static str,
}

/// How many of a kind are reported individually.
pub(super) const NAMED: usize = 8;

/// Makes a finding for each of the first few items, and one for all others.
pub(super) fn one_by_one<T>(
    all: &[T],
    one: impl Fn(&T) -> Finding,
    others: impl FnOnce(&[T]) -> Finding,
) -> Vec<Finding> {
    let (few, rest) = all.split_at(all.len().min(NAMED));
    let others = (!rest.is_empty()).then(|| others(rest));
    few.iter().map(one).chain(others).collect()
}

/// Lists the first few of many pod names.
pub(super) fn some_names<'a>(pods: impl ExactSizeIterator<Item = &'a PodRef>) -> String {
    let dots = if pods.len() > NAMED { ", …" } else { "" };
    let names: Vec<String> = pods.take(NAMED).map(ToString::to_string).collect();
    format!("{}{dots}", names.join(", "))
}

/// The sum of all findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no problem, though perhaps warnings.
    Well,
    Ill,
    CannotTell,
}

impl Verdict {
    pub(crate) fn of(findings: &[Finding]) -> Self {
        match findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Problem) => Self::Ill,
            Some(Severity::Unclear) => Self::CannotTell,
            Some(Severity::Warning | Severity::Note) | None => Self::Well,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts_and_what_is_unclear_is_not_well() {
        let verdict = |severities: &[Severity]| {
            let finding = |severity: &Severity| Finding {
                name: "x",
                severity: *severity,
                what: String::new(),
                evidence: String::new(),
                advice: "",
            };
            Verdict::of(&severities.iter().map(finding).collect::<Vec<_>>())
        };
        assert_eq!(verdict(&[]), Verdict::Well);
        assert_eq!(verdict(&[Severity::Warning, Severity::Note]), Verdict::Well);
        assert_eq!(verdict(&[Severity::Warning, Severity::Unclear]), Verdict::CannotTell);
        assert_eq!(verdict(&[Severity::Unclear, Severity::Problem]), Verdict::Ill);
    }
}
