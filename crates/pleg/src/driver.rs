//! The task that runs the core: it keeps the timer, makes the calls, and carries out the effects.
//!
//! It waits only for its own inputs. Calls run as tasks of their own and come back as inputs, so a call that hangs does
//! not hold up anything else. Dropping the driver ends every call.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use rubelet_model::PodUid;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinSet};

use crate::announce::StreamError;
use crate::clock::Stamp;
use crate::core::{Ask, Effect, Input};
use crate::hints::{self, Begin};
use crate::observe::{Call, Failure, Observe, ObserveError};
use crate::progress::Stage;
use crate::records::Snapshot;
use crate::shared::{Reach, Shared};

pub(crate) struct Driver<O> {
    observer: Arc<O>,
    shared: Arc<Shared>,
    calls: JoinSet<Input>,
    /// What each task was asked to do, in case it panics.
    asked_by: HashMap<Id, Asked>,
    inspections: HashMap<u64, AbortHandle>,
    /// By pod and by when the look was requested, which together identify one look.
    looks: HashMap<(PodUid, Stamp), AbortHandle>,
}

#[derive(Clone)]
enum Asked {
    List { asked: Stamp },
    Look { pod: PodUid, asked: Stamp },
    Inspect { pod: PodUid, ticket: u64 },
}

impl<O: Observe> Driver<O> {
    pub(crate) fn new(observer: Arc<O>, shared: Arc<Shared>) -> Self {
        Self {
            observer,
            shared,
            calls: JoinSet::new(),
            asked_by: HashMap::new(),
            inspections: HashMap::new(),
            looks: HashMap::new(),
        }
    }

    /// Runs until it is stopped.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        // Calls of an earlier driver have all ended, so none of them will answer.
        self.shared.interrupted();
        // When this set is dropped, the task in it ends.
        let mut hints = JoinSet::new();
        self.follow_announcements(&mut hints, Begin::AtOnce);
        self.step(Input::Tick);
        loop {
            let tick = self.shared.next_tick();
            tokio::select! {
                biased;
                // Stopping comes first, so that it takes no longer than one step.
                _ = stop.wait_for(|stop| *stop) => break,
                // Time comes next: a flood of answers must not put off the next list.
                () = sleep_until(tick) => self.step(Input::Tick),
                Some(answer) = self.calls.join_next_with_id() => {
                    // What was announced before an answer came may be all that is known of what the answer lacks.
                    self.take_requests();
                    let input = self.answer(answer);
                    self.step(input);
                }
                () = self.shared.requests.arrived() => self.take_requests(),
                // It ends by itself only if it panics. The next one starts after a pause.
                Some(ended) = hints.join_next() => {
                    let Err(error) = ended;
                    tracing::error!(%error, "the reader of the runtime's events panicked");
                    self.step(Input::StreamEnded(StreamError::Broken("its reader panicked".into())));
                    self.follow_announcements(&mut hints, Begin::AfterAPause);
                }
            }
        }
        self.calls.shutdown().await;
        hints.shutdown().await;
    }

    /// Starts the task that follows the event stream, if that is enabled.
    fn follow_announcements(&self, task: &mut JoinSet<Infallible>, begin: Begin) {
        if self.shared.config.follow_events {
            task.spawn(hints::follow(self.observer.clone(), self.shared.clone(), begin));
        }
    }

    fn take_requests(&mut self) {
        for request in self.shared.requests.take() {
            self.step(request);
        }
    }

    fn step(&mut self, input: Input) {
        self.shared.note_reach(&input);
        for effect in self.shared.step(input) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Ask(ask) => self.ask(ask),
            Effect::Publish(news) => self.shared.publish(news),
        }
    }

    fn ask(&mut self, ask: Ask) {
        match ask {
            Ask::List { asked } => self.list(asked),
            Ask::Look { pod, asked } => self.look(pod, asked),
            Ask::Inspect { snapshot, ticket } => self.inspect(snapshot, ticket),
            Ask::Abandon { ticket } => {
                if let Some(inspection) = self.inspections.remove(&ticket) {
                    inspection.abort();
                }
            }
            Ask::AbandonLook { pod, asked } => {
                if let Some(look) = self.looks.remove(&(pod, asked)) {
                    look.abort();
                }
            }
        }
    }

    fn list(&mut self, asked: Stamp) {
        let observer = self.observer.clone();
        let progress = self.shared.board.begin(Stage::List, asked.as_nanos());
        let call = self.calls.spawn(async move {
            let answer = observer.list(&progress).await;
            Input::Listed { asked, answer }
        });
        self.asked_by.insert(call.id(), Asked::List { asked });
    }

    fn look(&mut self, pod: PodUid, asked: Stamp) {
        let observer = self.observer.clone();
        let progress = self.shared.board.begin(Stage::Look(pod.clone()), asked.as_nanos());
        let task = {
            let pod = pod.clone();
            async move {
                let answer = observer.list_pod(&pod, &progress).await;
                Input::Looked { pod, asked, answer }
            }
        };
        let call = self.calls.spawn(task);
        self.looks.insert((pod.clone(), asked), call.clone());
        self.asked_by.insert(call.id(), Asked::Look { pod, asked });
    }

    fn inspect(&mut self, snapshot: Arc<Snapshot>, ticket: u64) {
        let pod = snapshot.pod.pod.uid.clone();
        let observer = self.observer.clone();
        let progress = self.shared.board.begin(Stage::Inspect(pod.clone()), ticket);
        let task = {
            let pod = pod.clone();
            async move {
                let answer = observer.inspect(&snapshot.pod, &progress).await;
                Input::Inspected { pod, ticket, answer }
            }
        };
        let call = self.calls.spawn(task);
        self.asked_by.insert(call.id(), Asked::Inspect { pod, ticket });
        self.inspections.insert(ticket, call);
    }

    /// Converts the result of a call to an input; a panic is a failed call.
    fn answer(&mut self, finished: Result<(Id, Input), tokio::task::JoinError>) -> Input {
        match finished {
            Ok((id, input)) => {
                self.asked_by.remove(&id);
                match &input {
                    Input::Inspected { ticket, .. } => {
                        self.inspections.remove(ticket);
                    }
                    Input::Looked { pod, asked, .. } => {
                        self.looks.remove(&(pod.clone(), *asked));
                    }
                    _ => {}
                }
                input
            }
            Err(error) => {
                let asked = self.asked_by.remove(&error.id());
                if error.is_cancelled() {
                    return Input::Tick;
                }
                tracing::error!(%error, "an observer panicked");
                let failed = |call| ObserveError {
                    call,
                    target: None,
                    failure: Failure::Panicked,
                    message: "the observer panicked".into(),
                };
                match asked {
                    Some(Asked::List { asked }) => {
                        Input::Listed { asked, answer: Err(failed(Call::ListPodSandbox)) }
                    }
                    Some(Asked::Look { pod, asked }) => {
                        self.looks.remove(&(pod.clone(), asked));
                        Input::Looked { pod, asked, answer: Err(failed(Call::ListPodSandbox)) }
                    }
                    Some(Asked::Inspect { pod, ticket }) => {
                        self.inspections.remove(&ticket);
                        Input::Inspected { pod, ticket, answer: Err(failed(Call::PodSandboxStatus)) }
                    }
                    None => Input::Tick,
                }
            }
        }
    }
}

async fn sleep_until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl Shared {
    /// Publishes whether the runtime answers.
    fn note_reach(&self, input: &Input) {
        let reach = match input {
            Input::Listed { answer: Ok(listing), .. } => Reach::Reached { epoch: listing.epoch },
            Input::Listed { answer: Err(error), .. } => Reach::Lost { error: error.clone() },
            Input::Tick
            | Input::Looked { .. }
            | Input::Inspected { .. }
            | Input::Nudge { .. }
            | Input::Reinspect { .. }
            | Input::Awaited
            | Input::StreamOpened
            | Input::StreamEnded(_)
            | Input::Announced { .. }
            | Input::Interrupted => return,
        };
        self.reach.tell_news(reach);
    }
}
