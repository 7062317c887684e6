//! Room for commands in containers: limits how many run at once, so that enough of our descriptors and of the shims'
//! remain for everything else.
//!
//! A command with a time limit will end; one without may stay for ever. So the two kinds do not compete: each has
//! places of its own. A command without a time limit waits for a place, as long as it takes. A command with one gets an
//! error at once if there is no place: its caller would count the wait as the command's own time, and mistake a probe
//! that could not even be started for one that hangs.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Error, Result};

/// Places per kind of command: one for this many descriptors that we may have open. Each command takes up to four,
/// there are two kinds, and half of all descriptors are for other things.
const DESCRIPTORS: u64 = 16;

/// The same for a shim, which keeps two descriptors for a command.
const SHIM_DESCRIPTORS: u64 = 8;

/// More are never needed: an agent runs at most eight probe commands at once for each processor.
const MOST: u64 = 2048;

/// The maximum for one container.
const MOST_IN_ONE: u64 = 128;

/// The places for commands.
#[derive(Debug)]
pub(crate) struct Room {
    passing: Semaphore,
    staying: Semaphore,
    places: usize,
}

/// A place for one command, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    _permit: SemaphorePermit<'a>,
}

impl Room {
    fn new(places: usize) -> Self {
        Self { passing: Semaphore::new(places), staying: Semaphore::new(places), places }
    }

    /// Creates the room for all containers, in a process that may have this many files open.
    pub(crate) fn of_all(open_files: Option<u64>) -> Self {
        let places = open_files.map_or(MOST, |files| (files / DESCRIPTORS).clamp(1, MOST));
        Self::new(usize::try_from(places).unwrap_or(usize::MAX))
    }

    /// Creates the room for one container, whose shim may have this many files open: at most a quarter of all places,
    /// so that commands that never end leave room for those of other containers.
    pub(crate) fn of_one(&self, open_files: Option<u64>) -> Self {
        let part = u64::try_from(self.places / 4).unwrap_or(u64::MAX);
        let places = part.min(open_files.map_or(u64::MAX, |files| files / SHIM_DESCRIPTORS));
        Self::new(usize::try_from(places.clamp(1, MOST_IN_ONE)).unwrap_or(usize::MAX))
    }

    /// Takes a place for a command.
    pub(crate) async fn enter(&self, has_time_limit: bool) -> Result<Place<'_>> {
        let permit = if has_time_limit {
            self.passing.try_acquire().map_err(|_| Error::Full {
                problem: format!(
                    "{} commands with a time limit are already running; try again later",
                    self.places
                ),
            })?
        } else {
            // The semaphore is never closed.
            self.staying.acquire().await.map_err(|error| Error::Internal(error.to_string()))?
        };
        Ok(Place { _permit: permit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_what_may_be_open() {
        for (files, shim, all, one) in [
            (None, None, 2048, 128),
            (Some(1 << 20), Some(1024), 2048, 128),
            (Some(4096), Some(1024), 256, 64),
            (Some(1024), Some(1024), 64, 16),
            (Some(1 << 20), Some(256), 2048, 32),
            (Some(8), Some(0), 1, 1),
        ] {
            let room = Room::of_all(files);
            assert_eq!((room.places, room.of_one(shim).places), (all, one), "{files:?} {shim:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_stay_for_ever_takes_no_place_of_those_who_pass() {
        let room = Room::new(2);
        let (_one, two) = (room.enter(false).await.unwrap(), room.enter(false).await.unwrap());
        let day = std::time::Duration::from_secs(24 * 3600);
        assert!(tokio::time::timeout(day, room.enter(false)).await.is_err(), "it waits");
        let (three, _four) = (room.enter(true).await.unwrap(), room.enter(true).await.unwrap());
        assert!(matches!(room.enter(true).await, Err(Error::Full { .. })), "it is told at once");
        drop((two, three));
        room.enter(false).await.unwrap();
        room.enter(true).await.unwrap();
    }
}
