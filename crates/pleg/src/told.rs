//! A value that handles watch until the PLEG ends.

use parking_lot::Mutex;
use tokio::sync::watch;

/// The sending end of a watch. Handles keep it alive, so it is [closed](Self::close) instead of being dropped.
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

    /// Sends a value, even if it equals the current one.
    pub(crate) fn tell(&self, value: T) {
        if let Some(sender) = &*self.sender.lock() {
            sender.send_replace(value);
        }
    }

    /// Sends a value if it differs from the current one.
    pub(crate) fn tell_news(&self, value: T) {
        if *self.receiver.borrow() != value {
            self.tell(value);
        }
    }

    /// Watches the values from now on, and the end.
    pub(crate) fn subscribe(&self) -> watch::Receiver<T> {
        let mut receiver = self.receiver.clone();
        receiver.mark_unchanged();
        receiver
    }

    /// Ends the watch: nothing more will be sent.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
    }
}
