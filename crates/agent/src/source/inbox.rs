//! Where sources leave what they know: one slot per source, and the newest set wins. So a source never waits, and a
//! slow reader costs no memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{SourceId, SourceSet};
use crate::manifest::Problem;

/// News from a source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    /// Everything that it knows.
    Set(SourceSet),
    /// It cannot read its pods, for these reasons. Its previous set stays in effect.
    CannotTell(Vec<Problem>),
}

/// The receiving end.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    news: Mutex<BTreeMap<SourceId, News>>,
    changed: Notify,
}

impl Inbox {
    /// Creates the sending end for one source.
    #[must_use]
    pub fn sender(&self, source: SourceId) -> SetSender {
        SetSender { source, inbox: Arc::clone(&self.0) }
    }

    /// Waits for news. Cancel safe. There must be only one reader.
    pub(super) async fn next(&self) -> (SourceId, News) {
        loop {
            if let Some(first) = self.0.news.lock().pop_first() {
                return first;
            }
            self.0.changed.notified().await;
        }
    }
}

/// Sends what one source knows, and never waits.
#[derive(Debug)]
pub struct SetSender {
    source: SourceId,
    inbox: Arc<Waiting>,
}

impl SetSender {
    /// Sends the set: from now on, this is all that the source knows.
    pub fn send(&self, set: SourceSet) {
        self.inbox.news.lock().insert(self.source.clone(), News::Set(set));
        self.inbox.changed.notify_one();
    }

    /// Reports that the source cannot read its pods, and everything that is currently wrong with it.
    pub fn cannot_tell(&self, problems: Vec<Problem>) {
        let mut news = self.inbox.news.lock();
        match news.get_mut(&self.source) {
            Some(News::Set(set)) => set.problems = problems,
            _ => {
                news.insert(self.source.clone(), News::CannotTell(problems));
            }
        }
        drop(news);
        self.inbox.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Issue;
    use crate::source::SourceKind;

    fn problem(text: &str) -> Problem {
        Problem::error("place", Issue::Unreadable(text.to_owned()))
    }

    #[tokio::test]
    async fn the_newest_wins_and_nothing_is_forgotten() {
        let inbox = Inbox::default();
        let (a, b) = (SourceId::new(SourceKind::File, "a"), SourceId::new(SourceKind::File, "b"));
        let (to_a, to_b) = (inbox.sender(a.clone()), inbox.sender(b.clone()));

        to_b.send(SourceSet::default());
        to_a.cannot_tell(vec![problem("first")]);
        to_a.send(SourceSet::default());
        to_a.cannot_tell(vec![problem("second")]);
        to_b.cannot_tell(vec![]);

        let set = SourceSet { problems: vec![problem("second")], ..SourceSet::default() };
        assert_eq!(
            inbox.next().await,
            (a, News::Set(set)),
            "a set is not lost because the source cannot tell later"
        );
        assert_eq!(inbox.next().await, (b, News::Set(SourceSet::default())));
    }

    #[tokio::test]
    async fn the_reader_is_woken() {
        let inbox = Inbox::default();
        let sender = inbox.sender(SourceId::new(SourceKind::File, "a"));
        let reader = tokio::spawn(async move { inbox.next().await });
        tokio::task::yield_now().await;
        sender.send(SourceSet::default());
        assert_eq!(reader.await.expect("the reader").1, News::Set(SourceSet::default()));
    }
}
