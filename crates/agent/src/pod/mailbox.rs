//! What waits for a pod's actor: one slot that merges, never a queue.
//!
//! The newest spec wins, an order to end is never taken back, its grace only shrinks, and several requests for a look
//! count as one. Merging is a join: the order in which things arrive does not matter, so nothing is lost however fast
//! they come.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::manifest::Objects;
use crate::source::SourceId;
use crate::status::{Rejection, ResizePending};

/// A pod as its source wants it, numbered: a higher number is newer.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) number: u64,
    pub(crate) pod: Arc<Pod>,
    /// The source that wants it.
    pub(crate) source: Option<SourceId>,
    /// The config maps and secrets that it may use.
    pub(crate) objects: Arc<Objects>,
    /// The pod with the resources of its manifest, if it cannot have them, and why.
    pub(crate) resize_pending: Option<(Arc<Pod>, ResizePending)>,
}

impl PartialEq for Wish {
    /// A number identifies a wish.
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// An order to end the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// How many seconds the pod may take; `None` if the order does not say.
    pub(crate) grace: Option<u64>,
    /// The pod is no longer wanted: nothing of it stays behind.
    pub(crate) forget: bool,
}

impl End {
    fn join(self, other: Self) -> Self {
        let grace = [self.grace, other.grace].into_iter().flatten().min();
        Self { grace, forget: self.forget || other.forget }
    }
}

/// A refusal by the node: the pod fails for this reason, nothing of it is started, and nothing of it keeps running.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refused {
    /// Later refusals have greater numbers.
    pub(crate) number: u64,
    pub(crate) rejection: Rejection,
}

/// Everything that waits for an actor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mail {
    pub(crate) wish: Option<Wish>,
    pub(crate) end: Option<End>,
    /// Something happened to the pod: look at it.
    pub(crate) look: bool,
    /// No earlier pod of its name is left.
    pub(crate) may_start: bool,
    /// The node refuses the pod.
    pub(crate) refused: Option<Refused>,
}

impl Mail {
    /// Combines both, as if they had come at once.
    pub(crate) fn join(self, other: Self) -> Self {
        let wish = match (self.wish, other.wish) {
            (Some(one), Some(two)) => Some(if two.number > one.number { two } else { one }),
            (one, two) => one.or(two),
        };
        let end = match (self.end, other.end) {
            (Some(one), Some(two)) => Some(one.join(two)),
            (one, two) => one.or(two),
        };
        // The later refusal.
        let refused = self.refused.max(other.refused);
        let (look, may_start) = (self.look || other.look, self.may_start || other.may_start);
        Self { wish, end, look, may_start, refused }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn wish(wish: Wish) -> Self {
        Self { wish: Some(wish), ..Self::default() }
    }

    pub(crate) fn end(end: End) -> Self {
        Self { end: Some(end), ..Self::default() }
    }

    pub(crate) fn look() -> Self {
        Self { look: true, ..Self::default() }
    }

    pub(crate) fn may_start() -> Self {
        Self { may_start: true, ..Self::default() }
    }

    pub(crate) fn refused(refused: Refused) -> Self {
        Self { refused: Some(refused), ..Self::default() }
    }
}

/// The slot between the sync loop and one actor.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<Mail>,
    arrived: Notify,
}

impl Mailbox {
    /// Puts mail in. Never waits.
    pub(crate) fn post(&self, mail: Mail) {
        {
            let mut waiting = self.waiting.lock();
            *waiting = std::mem::take(&mut *waiting).join(mail);
        }
        self.arrived.notify_one();
    }

    /// Takes everything out; this may be nothing.
    pub(crate) fn take(&self) -> Mail {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Waits until there is mail. Cancel-safe.
    pub(crate) async fn arrived(&self) {
        while self.waiting.lock().is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Waits for mail that makes whatever is in progress pointless: a rejection or an order to end. For a pod that has
    /// already been granted some seconds to end, only an order that grants fewer counts.
    pub(crate) async fn interrupted(&self, granted: Option<u64>) {
        let interrupts = |mail: &Mail| match granted {
            None => mail.end.is_some() || mail.refused.is_some(),
            Some(granted) => mail.end.is_some_and(|end| end.grace.is_some_and(|grace| grace < granted)),
        };
        while !interrupts(&self.waiting.lock()) {
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mails() -> impl Strategy<Value = Mail> {
        let wish = prop::option::of((0_u64..6).prop_map(|number| Wish {
            number,
            pod: Arc::default(),
            source: None,
            objects: Arc::default(),
            resize_pending: None,
        }));
        let end = prop::option::of(
            (prop::option::of(0_u64..50), any::<bool>()).prop_map(|(grace, forget)| End { grace, forget }),
        );
        let refused = prop::option::of((0..6_u64).prop_map(|number| Refused {
            number,
            rejection: Rejection { reason: "No".into(), message: number.to_string() },
        }));
        (wish, end, any::<bool>(), any::<bool>(), refused)
            .prop_map(|(wish, end, look, may_start, refused)| Mail { wish, end, look, may_start, refused })
    }

    proptest! {
        #[test]
        fn order_and_repetition_do_not_matter(a in mails(), b in mails(), c in mails()) {
            prop_assert_eq!(a.clone().join(b.clone()), b.clone().join(a.clone()));
            prop_assert_eq!(a.clone().join(b.clone()).join(c.clone()), a.clone().join(b.clone().join(c)));
            prop_assert_eq!(a.clone().join(a.clone()), a.clone());
            prop_assert_eq!(a.clone().join(Mail::default()), a);
        }

        #[test]
        fn the_newest_wish_wins_an_end_stays_and_its_grace_only_shrinks(mails in prop::collection::vec(mails(), 1..12)) {
            let mailbox = Mailbox::default();
            let mut shortest: Option<u64> = None;
            let mut newest: Option<u64> = None;
            let mut ended = false;
            for mail in mails {
                let grace = mail.end.and_then(|end| end.grace);
                shortest = [shortest, grace].into_iter().flatten().min();
                newest = newest.max(mail.wish.as_ref().map(|wish| wish.number));
                ended |= mail.end.is_some();
                mailbox.post(mail);
            }
            let all = mailbox.take();
            prop_assert_eq!(all.wish.map(|wish| wish.number), newest);
            prop_assert_eq!(all.end.is_some(), ended);
            prop_assert_eq!(all.end.and_then(|end| end.grace), shortest);
            prop_assert!(mailbox.take().is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_wakes_for_mail_and_interruption_only_for_an_end() {
        let mailbox = Mailbox::default();
        mailbox.post(Mail::look());
        mailbox.arrived().await;
        let patience = std::time::Duration::from_secs(3600);
        assert!(tokio::time::timeout(patience, mailbox.interrupted(None)).await.is_err());
        mailbox.post(Mail::end(End { grace: Some(9), forget: false }));
        mailbox.interrupted(None).await;
        mailbox.interrupted(Some(10)).await;
        assert!(tokio::time::timeout(patience, mailbox.interrupted(Some(9))).await.is_err());
    }
}
