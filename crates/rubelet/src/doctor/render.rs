//! A diagnosis as text or as JSON.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::{Facts, Finding, Severity, Verdict};
use crate::clean::{clean, clean_lines};
use crate::count::count;
use crate::http::AgentReport;

/// For people.
pub(crate) fn text(facts: &Facts, findings: &[Finding]) -> String {
    let mut text = String::new();
    if facts.unreachable.is_none() {
        if let Some(agent) = &facts.agent {
            let up = pleg::GoDuration::in_seconds(agent.report.uptime);
            let _ = writeln!(
                text,
                "asked the agent of {} (up {up}); use --runtime-endpoint to ask the runtime itself",
                agent.place
            );
        }
        if !facts.endpoint.is_empty() {
            let runtime = if facts.runtime.is_empty() { "a runtime" } else { &facts.runtime };
            let _ = writeln!(text, "{} at {}", clean(runtime), facts.endpoint);
        }
        let _ = text.write_str(&counts(facts));
    }
    for finding in findings {
        let (word, style) = match finding.severity {
            Severity::Problem => ("problem", AnsiColor::Red.on_default().bold()),
            Severity::Unclear => ("unclear", AnsiColor::Yellow.on_default().bold()),
            Severity::Warning => ("warning", AnsiColor::Yellow.on_default().bold()),
            Severity::Note => ("note", Style::new().bold()),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{style}{word}:{style:#} {}", clean(&finding.what));
        let _ = writeln!(text, "  seen: {}", clean_lines(&finding.evidence).replace('\n', "\n        "));
        let _ = writeln!(text, "  do:   {}", finding.advice);
    }
    if findings.iter().all(|finding| finding.severity == Severity::Note) {
        let green = AnsiColor::Green.on_default().bold();
        let _ = write!(text, "\n{green}nothing is wrong{green:#}\n");
    }
    text
}

/// Counts what there is, as far as it is known.
fn counts(facts: &Facts) -> String {
    let Some(report) = facts.report.as_ref().filter(|report| report.health.last_list.is_some()) else {
        return String::new();
    };
    let containers = match &facts.lists {
        Some(Ok(lists)) => {
            format!(", {}, {} running", count(lists.containers as u64, "container"), lists.running)
        }
        Some(Err(_)) | None => String::new(),
    };
    let events = match &facts.stream {
        Some(stream) if stream.open => "are followed",
        Some(_) => "are unavailable",
        None => "were not read",
    };
    format!("{}{containers}; events {events}\n", count(report.pods as u64, "pod"))
}

/// For programs.
pub(crate) fn json(facts: &Facts, findings: &[Finding]) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Diagnosis<'a> {
        runtime: &'a str,
        endpoint: &'a str,
        /// The folder of the agent that was asked, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<&'a str>,
        /// The agent's own report.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_report: Option<&'a AgentReport>,
        /// `None` if that could not be determined.
        healthy: Option<bool>,
        findings: &'a [Finding],
        #[serde(skip_serializing_if = "Option::is_none")]
        pleg: Option<&'a pleg::Report>,
    }
    let diagnosis = Diagnosis {
        runtime: &facts.runtime,
        endpoint: &facts.endpoint,
        agent: facts.agent.as_ref().map(|agent| agent.place.as_str()),
        agent_report: facts.agent.as_ref().map(|agent| &agent.report),
        healthy: match Verdict::of(findings) {
            Verdict::Well => Some(true),
            Verdict::Ill => Some(false),
            Verdict::CannotTell => None,
        },
        findings,
        pleg: facts.report.as_ref(),
    };
    serde_json::to_string_pretty(&diagnosis).expect("a diagnosis has no keys that are not text")
}
