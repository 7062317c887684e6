//! Health endpoints like the kubelet's: `ok`, or one line per check that failed.

use std::fmt::Write as _;

use axum::extract::{Query, State as Extract};
use axum::http::StatusCode;
use rubelet_agent::sync_loop::Readiness;
use serde::Deserialize;

use super::State;
use super::report::not_known_yet;

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Whether to list all checks, including those that passed.
    verbose: Option<String>,
}

type Answer = (StatusCode, String);
type Check = (&'static str, Result<(), String>);

/// The process is alive, and its loop makes progress.
pub(super) async fn livez(Extract(state): Extract<State>, Query(asked): Query<Asked>) -> Answer {
    answer("livez", &[ping(), sync_loop(&state)], &asked)
}

/// Pods are observed, and every source has been read.
pub(super) async fn readyz(Extract(state): Extract<State>, Query(asked): Query<Asked>) -> Answer {
    answer("readyz", &[ping(), sync_loop(&state), pleg(&state), sources(&state)], &asked)
}

/// Like the kubelet's: checks for what a restart may fix. A runtime that hangs is not included.
pub(super) async fn healthz(Extract(state): Extract<State>, Query(asked): Query<Asked>) -> Answer {
    answer("healthz", &[ping(), log(), sync_loop(&state)], &asked)
}

fn ping() -> Check {
    ("ping", Ok(()))
}

/// Always passes: logging never waits for a reader.
fn log() -> Check {
    ("log", Ok(()))
}

fn sync_loop(state: &State) -> Check {
    ("syncloop", state.0.agent.pulse().check().map_err(|error| error.to_string()))
}

fn pleg(state: &State) -> Check {
    let health = state.0.pleg.health();
    let problem = || health.problem.clone().unwrap_or_else(|| "PLEG is not healthy".to_owned());
    ("pleg", if health.healthy { Ok(()) } else { Err(problem()) })
}

fn sources(state: &State) -> Check {
    ("sources", heard(&state.0.agent.ready().borrow()))
}

fn heard(readiness: &Readiness) -> Result<(), String> {
    not_known_yet(readiness.was_surveyed, &readiness.unheard).map_or(Ok(()), Err)
}

fn answer(path: &str, checks: &[Check], asked: &Asked) -> Answer {
    let is_well = checks.iter().all(|(_, result)| result.is_ok());
    if is_well && asked.verbose.is_none() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, result) in checks {
        let _ = match result {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(problem) => writeln!(text, "[-]{name} failed: {problem}"),
        };
    }
    let (status, verdict) =
        if is_well { (StatusCode::OK, "passed") } else { (StatusCode::INTERNAL_SERVER_ERROR, "failed") };
    let _ = writeln!(text, "{path} check {verdict}");
    (status, text)
}

#[cfg(test)]
mod tests {
    use rubelet_agent::source::{SourceId, SourceKind};

    use super::*;

    #[test]
    fn sources_that_were_not_heard_are_named() {
        let source = |kind, place: &str| SourceId::new(kind, place);
        let mut readiness = Readiness {
            was_surveyed: false,
            unheard: vec![source(SourceKind::File, "/pods"), source(SourceKind::Http, "http://x/")],
        };
        assert!(heard(&readiness).unwrap_err().contains("pods on this machine have not been listed"));
        readiness.was_surveyed = true;
        assert_eq!(heard(&readiness).unwrap_err(), "not read yet: file /pods, http http://x/");
        readiness.unheard.clear();
        assert_eq!(heard(&readiness), Ok(()));
    }

    #[test]
    fn all_well_is_ok_and_failures_are_named() {
        let quiet = Asked { verbose: None };
        let checks: [Check; 2] = [("ping", Ok(())), ("pleg", Err("stuck".to_owned()))];
        assert_eq!(answer("livez", &checks[..1], &quiet), (StatusCode::OK, "ok".to_owned()));
        let wanted = "[+]ping ok\n[-]pleg failed: stuck\nreadyz check failed\n";
        assert_eq!(answer("readyz", &checks, &quiet), (StatusCode::INTERNAL_SERVER_ERROR, wanted.to_owned()));
        let verbose = Asked { verbose: Some(String::new()) };
        assert_eq!(answer("healthz", &checks[..1], &verbose).1, "[+]ping ok\nhealthz check passed\n");
    }
}
