//! The state shared by all connections, and the only way to change the world.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;

use crate::synthetic::bus::{Bus, Ticket};
use crate::synthetic::calls::Calls;
use crate::synthetic::faults::Faults;
use crate::synthetic::seed::Seed;
use crate::synthetic::world::World;

pub(super) struct Shared {
    world: Mutex<World>,
    pub(super) faults: Faults,
    pub(super) calls: Calls,
    pub(super) bus: Arc<Bus>,
    /// Incremented by every access that may have changed the world, for those who wait for a change.
    version: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(world: World, seed: Seed) -> Self {
        Self {
            faults: Faults::new(seed),
            calls: Calls::new(),
            bus: Bus::new(world.quirks().events, seed),
            world: Mutex::new(world),
            version: watch::Sender::new(0),
        }
    }

    /// Accesses the world without sending events.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world.lock())
    }

    /// Changes the world and sends the resulting events, in the order of the changes. Code that answers a call must
    /// then wait as the runtime does: see [`Bus::accepted`].
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> (T, Ticket) {
        let mut world = self.world.lock();
        let result = change(&mut world);
        let ticket = self.bus.publish(world.take_events());
        drop(world);
        self.version.send_modify(|version| *version += 1);
        (result, ticket)
    }

    /// Changes the world if the call is allowed to, and waits until its events have been accepted.
    pub(super) async fn try_change<T>(
        &self,
        change: impl FnOnce(&mut World) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let (result, ticket) = self.change(change);
        let result = result?;
        self.bus.accepted(ticket).await;
        Ok(result)
    }

    /// Waits until a condition on the world holds. It is evaluated after each change.
    pub(super) async fn until(&self, mut condition: impl FnMut(&World) -> bool) {
        let mut version = self.version.subscribe();
        loop {
            version.borrow_and_update();
            if condition(&self.world.lock()) {
                return;
            }
            version.changed().await.expect("the sender is in self");
        }
    }
}
