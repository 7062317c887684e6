//! The server: a virtual world on a unix socket, and the handle that drives it.

mod answer;
mod dispatch;
mod listen;
mod read;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::calls::Calls;
use super::faults::Faults;
use super::forever::Population;
use super::profile::{Profile, Quirks};
use super::seed::Seed;
use super::world::World;
use listen::Listening;

/// A synthetic runtime before it serves.
#[derive(Debug)]
#[must_use = "it does nothing before it serves"]
pub struct SyntheticRuntime {
    quirks: Quirks,
    seed: u64,
    population: Population,
}

impl SyntheticRuntime {
    /// A runtime with the manners of this one.
    pub fn new(profile: Profile) -> Self {
        Self { quirks: profile.quirks(), seed: 0, population: Population::default() }
    }

    /// With this seed instead of 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With single quirks changed.
    pub fn quirks(mut self, change: impl FnOnce(&mut Quirks)) -> Self {
        change(&mut self.quirks);
        self
    }

    /// With these pods on the node from the beginning.
    pub fn populate(mut self, population: Population) -> Self {
        self.population = population;
        self
    }

    /// With the streaming lists that newer runtimes have, this many entries a message.
    pub fn streaming_lists(self, batch: usize) -> Self {
        self.quirks(|quirks| quirks.stream_lists = Some(batch))
    }

    /// Serves on a unix socket at this path, in tasks of the current tokio runtime, until the handle is stopped
    /// or dropped. Whatever was at the path before is replaced.
    pub async fn serve(self, socket: impl AsRef<Path>) -> io::Result<Handle> {
        let mut world = World::with_quirks(self.quirks, self.seed);
        world.populate(self.population);
        let shared = Arc::new(Shared {
            calls: Calls::new(),
            faults: Faults::new(Seed(self.seed)),
            world: Mutex::new(world),
        });
        let socket = socket.as_ref().to_owned();
        let listening = Listening::start(&socket, shared.clone())?;
        Ok(Handle { shared, socket, listening: Some(listening) })
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) world: Mutex<World>,
    pub(crate) faults: Faults,
    pub(crate) calls: Calls,
}

/// A synthetic runtime that serves. It stops when this is dropped.
pub struct Handle {
    shared: Arc<Shared>,
    socket: PathBuf,
    listening: Option<Listening>,
}

impl Handle {
    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its address as runtime endpoints are written: `unix://` and the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Looks at the world or changes it. No call is answered meanwhile, so what is changed together is seen together.
    pub fn world<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.shared.world.lock())
    }

    /// Programs faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// The calls that were made.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// Ends every connection and removes the socket.
    pub async fn stop(mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop().await;
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("socket", &self.socket).field("calls", &self.shared.calls).finish()
    }
}
