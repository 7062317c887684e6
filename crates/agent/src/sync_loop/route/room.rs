//! Who is let in, and who is asked again when room appears.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use rubelet_model::PodUid;

use super::{Command, Facts, Record, Routes};
use crate::admission::{self, Refusal};
use crate::pod::{End, Mail, Refused, full_name};
use crate::status::Rejection;

/// How far the pods of the sources have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// How many pods the sources want.
    pub wanted: usize,
    /// How many of them this node has no room for now, but would have if others were gone.
    pub waiting_for_room: usize,
    /// How many of them end now to begin anew.
    pub beginning_anew: usize,
}

impl Record {
    /// Whether it begins as soon as this node can take it.
    fn waits_for_room(&self) -> bool {
        self.refusal.is_some() && !self.is_stopped
    }
}

impl Routes {
    /// A pod that was refused, stopped or renamed begins anew, as if it had just come.
    pub(super) fn ask_again(&mut self, uid: &PodUid, commands: &mut Vec<Command>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        (record.is_leaving, record.is_stopped) = (true, false);
        let mail = Mail::end(End { grace: None, forget: true });
        commands.push(Command::Post { uid: uid.clone(), mail });
    }

    /// Why this node cannot take a pod now, beside those that it has.
    pub(super) fn refusal(&self, pod: &Pod, facts: &Facts) -> Option<Refusal> {
        admission::admit(pod, &self.others(pod, facts), &self.node).err()
    }

    /// Those that take room beside a pod.
    pub(super) fn others<'a>(&'a self, pod: &Pod, facts: &'a Facts) -> Vec<&'a Pod> {
        let name = full_name(pod);
        // Its earlier self goes before it comes.
        let others = self.in_the_rooms(facts).filter(|(other, _)| *other != name);
        others.map(|(_, pod)| pod).collect()
    }

    /// All that take room, by name.
    fn in_the_rooms<'a>(&'a self, facts: &'a Facts) -> impl Iterator<Item = (Arc<str>, &'a Pod)> {
        let here = self.records.iter().filter_map(|(uid, record)| {
            Some((record.name.clone(), self.in_the_room(uid, record, facts)?))
        });
        here.chain(self.unclaimed())
    }

    /// The pod that takes room for a record, if any does. Those that were refused may be many: they cost no search.
    fn in_the_room<'a>(&'a self, uid: &PodUid, record: &'a Record, facts: &Facts) -> Option<&'a Pod> {
        let takes_none = record.refusal.is_some() || record.had_finished || facts.over.contains(uid);
        if !record.is_leaving && takes_none {
            return None;
        }
        let want = self.wants.of(uid)?;
        // One that is leaving comes back.
        Some(if record.is_leaving { &want.pod } else { &record.pod })
    }

    /// Room may have appeared: those that were refused are asked again, who came first first.
    pub(in crate::sync_loop) fn reconsider(&mut self, facts: &Facts) -> Vec<Command> {
        let mut refused: Vec<(u64, PodUid)> = self
            .records
            .iter()
            .filter(|(uid, record)| record.waits_for_room() && self.is_wanted(uid))
            .map(|(uid, record)| (record.number, uid.clone()))
            .collect();
        refused.sort();
        let mut room: Vec<(Arc<str>, &Pod)> = self.in_the_rooms(facts).collect();
        let mut still = Vec::new();
        let mut again = Vec::new();
        for (_, uid) in refused {
            let Some((record, want)) = self.records.get(&uid).zip(self.wants.of(&uid)) else { continue };
            let others = room.iter().filter(|(name, _)| *name != record.name);
            let others: Vec<&Pod> = others.map(|(_, pod)| *pod).collect();
            match admission::admit(&record.pod, &others, &self.node) {
                // Only one that fits begins anew: it takes room from the others meanwhile, and two that did so without having
                // any would ask each other again for ever.
                Ok(()) => {
                    room.push((record.name.clone(), &*want.pod));
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

    /// One that still does not fit, but for another reason, says so.
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

    /// How far the pods of the sources have come.
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
