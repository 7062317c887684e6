//! A value that handles follow until the PLEG ends.

use parking_lot::Mutex;
use tokio::sync::watch;

/// The telling end of a watch. Handles keep it alive, so it is [closed](Self::close) rather than dropped.
#[derive(Debug)]
pub(crate) struct Told<T> {
    sender: Mutex<Option<watch::Sender<T>>>,
    receiver: watch::Receiver<T>,
}

impl<T: PartialEq> Told<T> {
    pub(crate) fn new(value: T) -> Self {
        let (sender, receiver) = watch::channel(value);
        Self { sender: Mutex::new(Some(sender)), receiver }
    }

    /// Tells it, also if it is the same again.
    pub(crate) fn tell(&self, value: T) {
        if let Some(sender) = &*self.sender.lock() {
            sender.send_replace(value);
        }
    }

    /// Tells it if it is news.
    pub(crate) fn tell_news(&self, value: T) {
        if *self.receiver.borrow() != value {
            self.tell(value);
        }
    }

    /// Hears what is told from now on, and the end.
    pub(crate) fn subscribe(&self) -> watch::Receiver<T> {
        let mut receiver = self.receiver.clone();
        receiver.mark_unchanged();
        receiver
    }

    /// Nothing more will be told.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
    }
}
