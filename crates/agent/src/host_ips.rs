//! The addresses of the node. They may change while it runs: a new lease, another network, a cable that is plugged in
//! late.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

/// The current addresses of the node, the primary one first. Clones follow the same changes.
#[derive(Clone, Debug)]
pub struct HostIps(watch::Receiver<Arc<[IpAddr]>>);

impl HostIps {
    /// Creates addresses that never change.
    #[must_use]
    pub fn fixed(ips: Vec<IpAddr>) -> Self {
        Self::watched(ips).1
    }

    /// Creates addresses that change to whatever is sent.
    #[must_use]
    pub fn watched(ips: Vec<IpAddr>) -> (watch::Sender<Arc<[IpAddr]>>, Self) {
        let (changes, ips) = watch::channel(ips.into());
        (changes, Self(ips))
    }

    /// Returns the current addresses; none while the node has no network.
    #[must_use]
    pub fn now(&self) -> Arc<[IpAddr]> {
        self.0.borrow().clone()
    }

    /// Waits for a change since the last call. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for HostIps {
    fn default() -> Self {
        Self::fixed(Vec::new())
    }
}
