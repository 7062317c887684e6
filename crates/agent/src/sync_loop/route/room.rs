//! Which pods are let in, and which are reconsidered when room appears.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodUid;

use super::{Command, Facts, Record, Routes};
use crate::admission::{self, Refusal, Tenants};
use crate::pod::{End, Mail, Refused, full_name};
use crate::status::Rejection;

/// How far the pods of the sources have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// How many pods the sources want.
    pub wanted: usize,
    /// How many of them have no room on this node now, but would have if others were gone.
    pub waiting_for_room: usize,
    /// How many of them are ending in order to be restarted.
    pub beginning_anew: usize,
}

/// The room that is taken, by the names of the pods that take it.
#[derive(Debug, Default)]
pub(super) struct Rooms<'a>(BTreeMap<Arc<str>, Tenants<'a>>);

impl<'a> Rooms<'a> {
    fn take(&mut self, name: &Arc<str>, pod: &'a Pod) {
        self.0.entry(name.clone()).or_default().push(pod);
    }

    /// The tenants other than a pod of this name: its earlier self goes before it starts.
    pub(super) fn beside(&self, name: &str) -> Vec<&Tenants<'a>> {
        self.0.iter().filter(|(other, _)| ***other != *name).map(|(_, tenants)| tenants).collect()
    }
}

impl Record {
    /// Whether it starts as soon as this node can accept it.
    fn waits_for_room(&self) -> bool {
        self.refusal.is_some() && !self.is_stopped
    }
}

impl Routes {
    /// Restarts a pod that was refused, stopped or renamed, as if it had just arrived.
    pub(super) fn ask_again(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        (record.is_leaving, record.is_stopped) = (true, false);
        let mail = Mail::end(End { grace: None, forget: true });
        commands.push(Command::Post { uid: uid.clone(), mail });
    }

    /// Why this node cannot accept a pod now, beside those that it has.
    pub(super) fn refusal(&self, pod: &Pod, facts: &Facts) -> Option<Refusal> {
        let rooms = self.rooms(facts);
        admission::admit(pod, &rooms.beside(&full_name(pod)), &self.node).err()
    }

    /// All room that is taken.
    pub(super) fn rooms(&self, facts: &Facts) -> Rooms<'_> {
        let mut rooms = Rooms::default();
        for (uid, record) in &self.records {
            for pod in self.in_the_room(uid, record, facts) {
                rooms.take(&record.name, pod);
            }
        }
        for (name, pod) in self.unclaimed() {
            rooms.take(&name, pod);
        }
        rooms
    }

    /// The pods that take room for a record: what runs, and what comes back. There may be many refused pods: they cost
    /// no search.
    fn in_the_room<'a>(
        &'a self,
        uid: &PodUid,
        record: &'a Record,
        facts: &Facts,
    ) -> impl Iterator<Item = &'a Pod> {
        let runs = record.refusal.is_none() && !record.had_finished && !facts.over.contains(uid);
        // A pod that is to be ended keeps running until it has ended.
        let runs = if runs { self.as_it_runs(uid, record) } else { None };
        let comes_back = if record.is_leaving { self.wants.of(uid) } else { None };
        runs.into_iter().chain(comes_back.map(|want| &*want.pod))
    }

    /// A pod as it runs. For one that is known only from the runtime, an earlier agent may have recorded what it takes.
    fn as_it_runs<'a>(&'a self, uid: &PodUid, record: &'a Record) -> Option<&'a Pod> {
        match &record.source {
            None if self.before.contains_key(uid) => self.before_it_is_claimed(uid),
            _ => Some(&record.pod),
        }
    }

    /// Reconsiders pods that were refused, oldest first: room may have appeared.
    pub(in crate::sync_loop) fn reconsider(&mut self, facts: &Facts) -> Vec<Command> {
        let mut refused: Vec<(u64, PodUid)> = self
            .records
            .iter()
            .filter(|(uid, record)| record.waits_for_room() && self.is_wanted(uid))
            .map(|(uid, record)| (record.number, uid.clone()))
            .collect();
        refused.sort();
        let mut rooms = self.rooms(facts);
        let mut still = Vec::new();
        let mut again = Vec::new();
        for (_, uid) in refused {
            let Some((record, want)) = self.records.get(&uid).zip(self.wants.of(&uid)) else { continue };
            match admission::admit(&record.pod, &rooms.beside(&record.name), &self.node) {
                // Only a pod that fits is restarted: in the meantime it takes room from the others, and two that did so
                // without fitting would make each other restart for ever.
                Ok(()) => {
                    rooms.take(&record.name, &want.pod);
                    again.push(uid);
                }
                Err(refusal) => still.push((uid, refusal)),
            }
        }
        let mut commands = Vec::new();
        for (uid, refusal) in still {
            self.refuse_still(&uid, refusal, &mut commands);
        }
        for uid in again {
            self.ask_again(&uid, &mut commands);
        }
        self.grow(facts, &mut commands);
        commands
    }

    /// Posts the new refusal of a pod that still does not fit, if its reason has changed.
    fn refuse_still(&mut self, uid: &PodUid, refusal: Refusal, commands: &mut Vec<Command>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        if record.refusal.as_ref().is_some_and(|known| known.reason() == refusal.reason()) {
            return;
        }
        self.wishes += 1;
        let refused = Refused { number: self.wishes, rejection: Rejection::from(&refusal) };
        record.refusal = Some(refusal);
        commands.push(Command::Post { uid: uid.clone(), mail: Mail::refused(refused) });
    }

    /// Returns how far the pods of the sources have come.
    pub(in crate::sync_loop) fn outlook(&self) -> Outlook {
        let wanted = self.records.iter().filter(|(uid, _)| self.wants.of(uid).is_some());
        let waits = |(_, record): &(&PodUid, &Record)| {
            record.waits_for_room() && admission::admit(&record.pod, &[], &self.node).is_ok()
        };
        Outlook {
            wanted: wanted.clone().count() + self.held.count(),
            waiting_for_room: wanted.clone().filter(waits).count(),
            beginning_anew: wanted.filter(|(_, record)| record.is_leaving).count(),
        }
    }
}
