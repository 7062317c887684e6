//! What the runtime announces, and what follows from it.
//!
//! An announcement leads to a look at its pod. What looks and lists find is then compared with what was announced:
//!
//! - What was announced but is not there yet is looked for again, a few times: some runtimes announce an end too early.
//! - What was announced but is gone when somebody looks has lived in between. It is reported from its announcements
//!   alone, since no list will ever show it. A look finds things by their labels, and misses those without: unless a
//!   removal was announced, only a full list can show that something is gone.
//! - What is found but not announced, not even a little later, is counted: the stream is incomplete, so lists must be
//!   frequent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rubelet_model::{ContainerId, PodRef, PodUid, UnixNanos};
use serde::{Deserialize, Serialize};

use super::doubt::{LAST_WORDS, better_end};
use super::graves::Graves;
use super::period::PeriodReason;
use super::telling::Telling;
use super::{Core, Effect, Measure, News};
use crate::announce::{Announcement, LifeStep, StreamError};
use crate::clock::{Now, Stamp};
use crate::event::{End, EventKind, PodEvent, Subject, Trigger};
use crate::records::{Change, steps_in};
use crate::stream_facts::StreamFacts;

/// How late the announcement of a change may come after the change was found.
const GRACE: Duration = Duration::from_secs(2);
/// When to look again for what was announced and is not there, each time after the previous look. After that, as often
/// as all pods would be listed without announcements: some things take their time to go.
const LOOK_AGAIN: [Duration; 3] =
    [Duration::from_millis(25), Duration::from_millis(150), Duration::from_millis(750)];
/// For how long after the first list a newly opened stream may deliver announcements that were kept from before.
const HANDED_OVER: Duration = Duration::from_secs(3);
/// For how long no change may have been missed before lists become rarer again.
const CALM: Duration = Duration::from_secs(60);
/// How long announcements are remembered if nothing follows from them. The announced end of something known is kept
/// until it has been reported.
const MEMORY: Duration = Duration::from_secs(60);

/// What is known from announcements only.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Announced {
    pub(super) facts: StreamFacts,
    /// When the open stream was opened, by both clocks.
    open: Option<Now>,
    /// When the first successful full list since then was answered. What is announced after it is news.
    #[serde(default)]
    listed: Option<Stamp>,
    /// The first such list that shows everything, which a list right after a restart of the runtime may not. Changes
    /// found after it must have been announced.
    baseline: Option<Baseline>,
    things: BTreeMap<Arc<str>, Thing>,
    /// Changes that were found and have not been announced, and when they were found.
    #[serde(with = "crate::pairs")]
    suspects: BTreeMap<(Arc<str>, LifeStep), Stamp>,
    /// When it last became certain that a change would not be announced any more.
    #[serde(default)]
    last_miss: Option<Stamp>,
    graves: Graves,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Baseline {
    asked: Stamp,
    answered: Stamp,
}

/// A container or sandbox that was announced, and that the committed view of its pod does not show as far in its life
/// as that.
#[derive(Debug, Serialize, Deserialize)]
struct Thing {
    pod: Option<PodRef>,
    subject: Option<Subject>,
    exit: Option<End>,
    /// The announced steps. The latest announcement was received at `heard`.
    steps: Steps,
    heard: Stamp,
    /// How often it was looked for in vain.
    tries: usize,
    /// Whether all of its announcements may be from before the stream was opened.
    is_old: bool,
    /// When it was found to be gone.
    #[serde(default)]
    gone: Option<Stamp>,
}

impl Thing {
    fn is_stale(&self, now: Stamp) -> bool {
        self.heard.plus(MEMORY) <= now
    }

    /// Whether its removal was announced, or a full list has not shown it.
    fn is_surely_gone(&self) -> bool {
        self.steps.has(LifeStep::Deleted) || self.gone.is_some()
    }

    /// Until when to wait for news of how it ended, now that it has been found gone: announcements may be late, and
    /// overtake each other. `None` if there is nothing to wait for.
    fn last_words_by(&mut self, now: Stamp) -> Option<Stamp> {
        let gone = *self.gone.get_or_insert(now);
        let may_come = self.exit.is_none() && !matches!(self.subject, Some(Subject::Sandbox { .. }));
        may_come.then(|| gone.plus(LAST_WORDS))
    }
}

/// A set of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Steps(u8);

impl Steps {
    fn add(&mut self, step: LifeStep) {
        self.0 |= 1 << step as u8;
    }

    fn has(self, step: LifeStep) -> bool {
        self.0 & (1 << step as u8) != 0
    }

    fn last(self) -> LifeStep {
        let all = [LifeStep::Deleted, LifeStep::Stopped, LifeStep::Started];
        all.into_iter().find(|step| self.has(*step)).unwrap_or(LifeStep::Created)
    }
}

/// Which pods a list covers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    All,
    Pod(&'a PodUid),
}

impl Announced {
    /// How a container ended, as announced.
    pub(super) fn exit(&self, id: &ContainerId) -> Option<End> {
        self.things.get(id.as_str())?.exit.clone()
    }

    /// The steps of a change that have not been announced.
    fn unheard<'a>(&self, change: &'a Change) -> impl Iterator<Item = LifeStep> + use<'a> {
        let Change { subject, kinds, had_run } = change;
        let ran = *had_run || kinds.contains(&EventKind::ContainerStarted);
        let heard = self.things.get(subject.id()).map_or(Steps::default(), |thing| thing.steps);
        let steps = kinds.iter().filter_map(move |kind| match kind {
            EventKind::ContainerStarted => Some(LifeStep::Started),
            // A container that never ran is removed without ever stopping.
            EventKind::ContainerDied if ran || kinds.len() == 1 => Some(LifeStep::Stopped),
            EventKind::ContainerRemoved => Some(LifeStep::Deleted),
            EventKind::ContainerDied | EventKind::PodSync | EventKind::ContainerChanged => None,
        });
        steps.filter(move |step| !heard.has(*step))
    }

    /// Notes that the stream is closed: nothing more is announced, so nothing counts as missed.
    fn close(&mut self) {
        self.open = None;
        self.facts.open_since = None;
        self.listed = None;
        self.baseline = None;
        self.suspects.clear();
    }

    /// Whether an announcement may be old, that is, kept from before the stream was opened. It was received at `at`,
    /// and the runtime dates it `announced`.
    ///
    /// Runtimes hand over what they have kept when a stream is opened. The runtime's date counts only around that time:
    /// later, a wrong clock would keep short lives from being reported. Until the first list has been answered, which
    /// may take a while, nothing but the date shows that an announcement is new.
    fn may_be_old(&self, announced: Option<UnixNanos>, at: Stamp, now: Now) -> bool {
        let announced = announced.filter(|announced| announced.is_set());
        let is_news = |open: Now| announced.is_some_and(|at| open.wall < at && at <= now.wall);
        if self.open.is_some_and(is_news) {
            return false;
        }
        // Recordings of earlier versions have only the baseline.
        let listed = self.listed.or(self.baseline.map(|baseline| baseline.answered));
        let Some(listed) = listed else { return true };
        let is_early = |open: Now| announced.is_some_and(|announced| announced < open.wall);
        at < listed || (at < listed.plus(HANDED_OVER) && self.open.is_some_and(is_early))
    }

    /// Whether the event stream is open, as far as we know.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// When the next suspect is overdue.
    pub(super) fn next_tick(&self) -> Option<Stamp> {
        self.suspects.values().min().map(|found| found.plus(GRACE))
    }
}

impl Core {
    pub(super) fn stream_opened(&mut self, now: Now) {
        self.announced.open = Some(now);
        self.announced.listed = None;
        self.announced.baseline = None;
        self.announced.facts.opened(now.stamp);
        // What happened before the stream was opened can be seen only in a list.
        self.list_no_later_than(self.soonest_list(now));
    }

    pub(super) fn stream_ended(&mut self, error: StreamError, now: Now, out: &mut Vec<Effect>) {
        self.announced.close();
        self.announced.facts.ended(now.stamp, error);
        self.list_often(PeriodReason::NoStream, now, out);
    }

    /// Forgets the stream, since nobody follows it any longer.
    pub(super) fn forget_stream(&mut self, out: &mut Vec<Effect>) {
        self.announced.close();
        if self.period.reset(PeriodReason::Restarted) {
            self.tell_period(out);
        }
    }

    /// Whether the removal of this event's subject has been reported.
    #[cfg(test)]
    pub(super) fn is_in_grave(&self, event: &PodEvent) -> bool {
        event.subject.as_ref().is_some_and(|subject| self.announced.graves.has(subject.id()))
    }

    /// Notes that a full list has been answered. `is_whole` is false for the first list after a reconnect.
    pub(super) fn stream_baseline(&mut self, asked: Stamp, is_whole: bool, now: Now) {
        let announced = &mut self.announced;
        if announced.open.is_none_or(|open| asked <= open.stamp) {
            return;
        }
        announced.listed.get_or_insert(now.stamp);
        if is_whole {
            announced.baseline.get_or_insert(Baseline { asked, answered: now.stamp });
        }
    }

    /// Whether the stream has been open for long enough, and has missed nothing for a while.
    pub(super) fn stream_is_complete(&self, now: Stamp) -> bool {
        self.announced.baseline.is_some()
            && self.announced.suspects.is_empty()
            && self.announced.last_miss.is_none_or(|missed| missed.plus(CALM) <= now)
    }

    /// Whether everything that is new in the newest view of a pod has been announced.
    pub(super) fn is_announced(&self, uid: &PodUid) -> bool {
        let Some(record) = self.records.get(uid) else { return true };
        let changes = record.changes(record.newest_view());
        changes.iter().all(|change| self.announced.unheard(change).next().is_none())
    }

    pub(super) fn announcements(&mut self, announcements: Vec<Announcement>, at: Stamp, now: Now) {
        self.announced.facts.heard(announcements.len() as u64, at);
        for announcement in announcements {
            self.announcement(announcement, at, now);
        }
        let records = &self.records;
        self.announced.things.retain(|id, thing| {
            let is_wanted = thing.exit.is_some() && records.holder(id).is_some();
            is_wanted || !thing.is_stale(now.stamp)
        });
    }

    fn announcement(&mut self, announcement: Announcement, at: Stamp, now: Now) {
        let Announcement { id, step, pod, subject, exit, exited_at, announced_at } = announcement;
        self.announced.suspects.remove(&(id.clone(), step));
        // If a record holds it again, it is back: a runtime may fail to load something when it starts, so that its
        // removal is reported, and load it after the next start.
        if self.announced.graves.has(&id) && self.records.holder(&id).is_none() {
            return;
        }
        let record = match &pod {
            Some(pod) => self.records.get(&pod.uid),
            None => self.records.holder(&id),
        };
        if record.and_then(|record| record.committed_step(&id)).is_some_and(|known| known >= step) {
            return;
        }
        let pod = pod.or_else(|| record.map(|record| record.pod.clone()));
        let is_old = self.announced.may_be_old(announced_at, at, now);
        let thing = self.announced.things.entry(id).or_insert_with(|| Thing {
            pod: None,
            subject: None,
            exit: None,
            steps: Steps::default(),
            heard: at,
            tries: 0,
            is_old: true,
            gone: None,
        });
        thing.is_old &= is_old;
        thing.pod = pod.or(thing.pod.take());
        thing.subject = subject.or(thing.subject.take());
        thing.exit = better_end(exit.map(|exit| (exit, exited_at)), thing.exit.take());
        thing.steps.add(step);
        thing.heard = at.max(thing.heard);
        thing.tries = 0;
        let patience = match step {
            LifeStep::Created | LifeStep::Started => self.config.start_patience,
            LifeStep::Stopped | LifeStep::Deleted => Duration::ZERO,
        };
        match thing.pod.as_ref().map(|pod| pod.uid.clone()) {
            Some(uid) if patience.is_zero() => self.nudge(uid, at, Trigger::Event),
            Some(uid) => self.agenda.look_since(uid, at, at.plus(patience)),
            None => self.list_no_later_than(self.soonest_list(now)),
        }
    }

    /// Compares what a list that was requested at `asked` shows with what was announced before that.
    pub(super) fn weigh_announcements(
        &mut self,
        scope: Scope<'_>,
        asked: Stamp,
        proves_absence: bool,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let in_scope = |thing: &Thing| match scope {
            Scope::All => true,
            Scope::Pod(uid) => thing.pod.as_ref().is_some_and(|pod| pod.uid == *uid),
        };
        let heard_before: Vec<Arc<str>> = self
            .announced
            .things
            .iter()
            .filter(|(_, thing)| thing.heard < asked && in_scope(thing))
            .map(|(id, _)| id.clone())
            .collect();
        for id in heard_before {
            let Some(thing) = self.announced.things.get_mut(&id) else { continue };
            if thing.pod.is_none() {
                thing.pod = self.records.holder(&id).map(|record| record.pod.clone());
            }
            let record = thing.pod.as_ref().and_then(|pod| self.records.get(&pod.uid));
            let newest = record.and_then(|record| record.newest_step(&id));
            let will_be_told = record.is_some_and(|record| record.holds(&id));
            match newest {
                // It is as announced, and is forgotten once that is committed.
                Some(step) if step >= thing.steps.last() => {}
                Some(_) if thing.is_stale(now.stamp) => {
                    if thing.exit.is_none() {
                        self.announced.things.remove(&id);
                    }
                }
                Some(_) => {
                    let pause = LOOK_AGAIN.get(thing.tries).copied().unwrap_or(self.period.shortest());
                    thing.tries += 1;
                    if let Some(pod) = &thing.pod {
                        let uid = pod.uid.clone();
                        self.agenda.look(uid, now.stamp.plus(pause));
                    }
                }
                // It was known, so its end is about to be reported in the usual way.
                None if will_be_told => {}
                None if !proves_absence => {}
                None if matches!(scope, Scope::Pod(_)) && !thing.is_surely_gone() => {
                    self.list_no_later_than(self.soonest_list(now));
                }
                None => match (thing.last_words_by(now.stamp), &thing.pod) {
                    (Some(until), Some(pod)) if now.stamp < until => {
                        self.agenda.look(pod.uid.clone(), until);
                    }
                    _ => self.tell_short_life(&id, now, out),
                },
            }
        }
    }

    /// Reports something that came and went without any list showing it.
    fn tell_short_life(&mut self, id: &Arc<str>, now: Now, out: &mut Vec<Effect>) {
        let Some(thing) = self.announced.things.remove(id) else { return };
        let Some(pod) = thing.pod else { return };
        if thing.is_old {
            return;
        }
        let subject = thing.subject.unwrap_or_else(|| Subject::Container {
            id: ContainerId::from(&**id),
            name: Arc::default(),
            attempt: 0,
        });
        let ran =
            thing.steps.has(LifeStep::Started) || thing.steps.has(LifeStep::Stopped) || thing.exit.is_some();
        let kinds: &[EventKind] = if ran {
            &[EventKind::ContainerStarted, EventKind::ContainerDied, EventKind::ContainerRemoved]
        } else {
            // The same events as for something that a list showed but that never ran.
            &[EventKind::ContainerDied, EventKind::ContainerRemoved]
        };
        self.announced.graves.add(id.clone(), now.stamp);
        self.announced.facts.short_lives += 1;
        out.push(Effect::Publish(News::Measure(Measure::ShortLife)));
        for &kind in kinds {
            let is_end = kind == EventKind::ContainerDied;
            let (exit, exited_at) = thing.exit.clone().filter(|_| is_end).unzip();
            let (subject, happened_at) = (Some(subject.clone()), exited_at.flatten());
            let event = self.event(kind, &pod, Trigger::Event, now);
            out.push(Effect::Publish(News::Tell(PodEvent { subject, exit, happened_at, ..event })));
        }
    }

    /// Notes the changes that were found, as suspects if they were not announced, and forgets the announcements of what
    /// is gone.
    pub(super) fn account_for(&mut self, telling: &Telling<'_>, changes: &[Change], now: Now) {
        let must_be_announced =
            self.announced.baseline.is_some_and(|baseline| telling.asked > baseline.asked);
        for change in changes {
            let id: Arc<str> = change.subject.id().into();
            if must_be_announced {
                let unheard = self.announced.unheard(change);
                self.announced.suspects.extend(unheard.map(|step| ((id.clone(), step), now.stamp)));
            }
            if change.kinds.contains(&EventKind::ContainerRemoved) {
                self.announced.things.remove(&id);
                self.announced.graves.add(id, now.stamp);
            }
        }
    }

    /// Forgets the announcements that a committed view has caught up with.
    pub(super) fn settle_announcements(&mut self, uid: &PodUid) {
        let Some(committed) = self.records.get(uid).and_then(|record| record.committed()) else { return };
        for (id, step) in steps_in(committed) {
            if self.announced.things.get(id).is_some_and(|thing| step >= thing.steps.last()) {
                self.announced.things.remove(id);
            }
        }
    }

    /// Counts the changes whose announcement is overdue.
    pub(super) fn expire_suspects(&mut self, now: Now, out: &mut Vec<Effect>) {
        let before = self.announced.suspects.len();
        self.announced.suspects.retain(|(id, step), found| {
            let is_late = found.plus(GRACE) <= now.stamp;
            if is_late {
                tracing::debug!(%id, ?step, "found by a list, and not announced");
            }
            !is_late
        });
        let unannounced = (before - self.announced.suspects.len()) as u64;
        if unannounced > 0 {
            self.announced.facts.unannounced += unannounced;
            self.announced.last_miss = Some(now.stamp);
            out.push(Effect::Publish(News::Measure(Measure::Unannounced(unannounced))));
            self.list_often(PeriodReason::Unannounced, now, out);
        }
    }
}
