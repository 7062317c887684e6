//! The server: a virtual world on a unix socket, and the handle that drives it.

mod answer;
mod containers;
mod dispatch;
mod events;
mod exec;
mod images;
mod listen;
mod lists;
mod node;
mod sandboxes;
mod shared;
mod stats;
mod statuses;
mod target;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Code;

use super::bus::Events;
use super::calls::Calls;
use super::faults::Faults;
use super::forever::Population;
use super::profile::{NotReadyYet, Profile, Quirks};
use super::seed::Seed;
use super::world::{Restart, World};
use listen::Listening;
use shared::Shared;

/// A synthetic runtime that is not serving yet.
#[derive(Debug)]
#[must_use = "it does nothing before it serves"]
pub struct SyntheticRuntime {
    quirks: Quirks,
    seed: u64,
    population: Population,
}

impl SyntheticRuntime {
    /// Creates a runtime that behaves like this one.
    pub fn new(profile: Profile) -> Self {
        Self { quirks: profile.quirks(), seed: 0, population: Population::default() }
    }

    /// Uses this seed instead of 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Changes single quirks.
    pub fn quirks(mut self, change: impl FnOnce(&mut Quirks)) -> Self {
        change(&mut self.quirks);
        self
    }

    /// Puts these pods on the node from the beginning.
    pub fn populate(mut self, population: Population) -> Self {
        self.population = population;
        self
    }

    /// Adds the streaming lists of newer runtimes, with this many entries per message.
    pub fn streaming_lists(self, batch: usize) -> Self {
        self.quirks(|quirks| quirks.stream_lists = Some(batch))
    }

    /// Serves on a unix socket at this path, in tasks of the current tokio runtime, until the handle is stopped or
    /// dropped. Whatever was at the path before is replaced.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub async fn serve(self, socket: impl AsRef<Path>) -> io::Result<Handle> {
        let mut world = World::with_quirks(self.quirks, self.seed);
        world.populate(self.population);
        let shared = Arc::new(Shared::new(world, Seed(self.seed)));
        let socket = socket.as_ref().to_owned();
        let listening = Listening::start(&socket, shared.clone())?;
        let events = Events::over(shared.bus.clone());
        Ok(Handle { shared, events, socket, listening: Mutex::new(Some(listening)) })
    }
}

/// A synthetic runtime that is serving. Dropping it stops the runtime.
pub struct Handle {
    shared: Arc<Shared>,
    events: Events,
    socket: PathBuf,
    /// `None` while it is down.
    listening: Mutex<Option<Listening>>,
}

impl Handle {
    /// The path of the socket it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its address in the form of runtime endpoints: `unix://` and the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Reads or changes the world. No call is answered in the meantime, so changes made together become visible
    /// together.
    pub fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.shared.change(change).0
    }

    /// Waits until a condition on the world holds, for instance that a container has been started. It is evaluated
    /// after each change.
    pub async fn until(&self, condition: impl FnMut(&World) -> bool) {
        self.shared.until(condition).await;
    }

    /// Returns the faults, to program new ones.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Returns the record of all calls.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// Returns the event streams, whose events can also be tampered with.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Goes down as if killed: every connection breaks, and the socket is left behind with nobody listening. The world
    /// continues, but nobody announces what happens in it.
    pub async fn go_down(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.abandon().await;
        }
        self.shared.change(|world| world.set_down(true));
        self.shared.bus.restart();
    }

    /// Comes up again, with a new socket.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub async fn come_up(&self, how: Restart) -> io::Result<()> {
        self.shared.change(|world| {
            world.restart(&how);
            world.set_down(false);
        });
        if how.initializing > 0 {
            let code = match self.shared.look(|world| world.quirks().initializing) {
                NotReadyYet::Unknown => Code::Unknown,
                NotReadyYet::Unavailable => Code::Unavailable,
            };
            self.faults().on_any().times(how.initializing).error(code, "server is not initialized yet");
        }
        let listening = Listening::start(&self.socket, self.shared.clone())?;
        *self.listening.lock() = Some(listening);
        Ok(())
    }

    /// Goes down and comes up again.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub async fn restart(&self, how: Restart) -> io::Result<()> {
        self.go_down().await;
        self.come_up(how).await
    }

    /// Closes every connection and removes the socket.
    pub async fn stop(self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.stop().await;
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shared, events, socket, .. } = self;
        f.debug_struct("Handle")
            .field("socket", socket)
            .field("calls", &shared.calls)
            .field("events", events)
            .finish()
    }
}
