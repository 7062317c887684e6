//! The actors of all pods: a task and a mailbox each. A pod has both or neither.

use std::collections::HashMap;
use std::sync::Arc;

use rubelet_model::PodUid;
use tokio::task::{Id, JoinError, JoinSet};

use crate::pod::{Journal, Mail, Mailbox};

/// The actors of all pods.
#[derive(Debug, Default)]
pub(super) struct Actors {
    tasks: JoinSet<Journal>,
    pods: HashMap<Id, PodUid>,
    mailboxes: HashMap<PodUid, Arc<Mailbox>>,
}

/// An actor that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) uid: PodUid,
    /// The events of its pod, unless the actor panicked.
    pub(super) journal: Result<Journal, JoinError>,
}

impl Actors {
    /// Spawns the actor of a pod, which reads this mailbox.
    pub(super) fn spawn(
        &mut self,
        uid: PodUid,
        mailbox: Arc<Mailbox>,
        actor: impl Future<Output = Journal> + Send + 'static,
    ) {
        let task = self.tasks.spawn(actor);
        self.pods.insert(task.id(), uid.clone());
        self.mailboxes.insert(uid, mailbox);
    }

    /// Puts mail into the mailbox of a pod; returns whether the pod has one.
    pub(super) fn post(&self, uid: &PodUid, mail: Mail) -> bool {
        let mailbox = self.mailboxes.get(uid);
        mailbox.inspect(|mailbox| mailbox.post(mail)).is_some()
    }

    /// Waits until an actor ends; `None` if there is no actor. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Option<Ended> {
        loop {
            let (id, journal) = match self.tasks.join_next_with_id().await? {
                Ok((id, journal)) => (id, Ok(journal)),
                Err(error) => (error.id(), Err(error)),
            };
            if let Some(uid) = self.pods.remove(&id) {
                self.mailboxes.remove(&uid);
                return Some(Ended { uid, journal });
            }
        }
    }

    /// The pods that have an actor.
    pub(super) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.mailboxes.keys()
    }

    /// Ends all actors in the middle of whatever they do.
    pub(super) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use pleg::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_a_mailbox_as_long_as_it_has_an_actor() {
        let mut actors = Actors::default();
        assert!(actors.ended().await.is_none(), "nobody is there to end");
        let spawn = |actors: &mut Actors, uid: &str, is_lost: bool| {
            let mailbox = Arc::new(Mailbox::default());
            let actor = {
                let mailbox = mailbox.clone();
                async move {
                    mailbox.arrived().await;
                    assert!(!is_lost, "it is lost");
                    Journal::new(Clock::start())
                }
            };
            actors.spawn(uid.into(), mailbox, actor);
        };
        spawn(&mut actors, "1", false);
        spawn(&mut actors, "2", true);
        assert!(!actors.post(&"3".into(), Mail::look()));
        for (uid, is_lost) in [("1", false), ("2", true)] {
            assert!(actors.post(&uid.into(), Mail::look()));
            let ended = actors.ended().await.unwrap();
            assert_eq!((ended.uid.as_str(), ended.journal.is_err()), (uid, is_lost));
            assert!(!actors.post(&uid.into(), Mail::look()), "nobody reads it any more");
        }
        assert_eq!(actors.uids().count(), 0);
    }
}
