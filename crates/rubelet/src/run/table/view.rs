//! The contents of the table, as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rubelet_agent::board::PodView;
use rubelet_agent::event::Severity;
use rubelet_agent::manifest::{self, Problem};
use rubelet_agent::source::SourceId;

use crate::summary::{Summary, short_time};

/// How many events are remembered; as many of them are shown as fit.
const REMEMBERED: usize = 20;

/// Everything that is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) pods: Vec<Summary>,
    /// The current problems of manifests.
    pub(super) problems: Vec<String>,
    /// The latest events, oldest first.
    pub(super) events: Vec<Event>,
    /// Where else to look.
    pub(super) hint: String,
}

/// An event of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time: String,
    pub(super) pod: String,
    pub(super) is_warning: bool,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) count: u64,
    /// The time that events are sorted by.
    pub(super) at: i64,
}

impl View {
    /// Updates all pods. Events of pods that are gone stay until newer ones take their place.
    pub(super) fn update_pods(&mut self, all: &[Arc<PodView>]) {
        self.pods = all.iter().map(|view| Summary::of_view(view)).collect();
        let there: BTreeSet<&str> = self.pods.iter().map(|pod| pod.name.as_str()).collect();
        self.events.retain(|event| !there.contains(event.pod.as_str()));
        for (view, summary) in all.iter().zip(&self.pods) {
            self.events.extend(view.events.iter().map(|event| Event {
                time: short_time(event.last_seen).split('.').next().unwrap_or_default().to_owned(),
                pod: summary.name.clone(),
                is_warning: event.severity == Severity::Warning,
                reason: event.reason.to_string(),
                message: one_line(&event.message),
                count: event.count.into(),
                at: event.last_seen.0,
            }));
        }
        self.events.sort_by_key(|event| event.at);
        let too_many = self.events.len().saturating_sub(REMEMBERED);
        self.events.drain(..too_many);
    }

    /// Updates the problems of manifests. Mere notes are left out: they have been printed once.
    pub(super) fn update_problems(&mut self, all: &BTreeMap<SourceId, Vec<Problem>>) {
        self.problems = all
            .values()
            .flatten()
            .filter(|problem| problem.severity == manifest::Severity::Error)
            .map(|problem| one_line(&problem.to_string()))
            .collect();
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
