//! Limits how much the agent writes for one pod. Items can repeat a key under other paths, projections can repeat an
//! object, and volumes one another: without a limit, a short manifest could fill the memory.

use super::VolumeError;

/// The most that the files of one volume may take up.
pub(super) const MOST_OF_VOLUME: usize = 16 << 20;

/// The most that the files of all volumes of a pod may take up together.
pub(super) const MOST_OF_POD: usize = 64 << 20;

/// What a file or folder takes up besides its content: roughly what the kernel keeps about it.
const EACH: usize = 1 << 10;

/// The space that is left for the volumes of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    of_volume: usize,
    of_pod: usize,
}

impl Room {
    /// Starts with all of it.
    pub(super) fn of_pod() -> Self {
        Self { of_volume: MOST_OF_VOLUME, of_pod: MOST_OF_POD }
    }

    /// Starts another volume of the same pod.
    pub(super) fn next_volume(&mut self) {
        self.of_volume = MOST_OF_VOLUME;
    }

    /// Takes what a file needs; to be called before its content is copied.
    pub(super) fn take(&mut self, path: &str, content: usize) -> Result<(), VolumeError> {
        let needed = content.saturating_add(EACH * path.split('/').count());
        let of_volume = self.of_volume.checked_sub(needed).ok_or(VolumeError::TooLarge)?;
        let of_pod = self.of_pod.checked_sub(needed).ok_or(VolumeError::TooLargeTogether)?;
        *self = Self { of_volume, of_pod };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_and_a_pod_have_room_for_so_much() {
        // The size of each file, where it is, and how many of them fit into one volume and into all.
        let table = [
            (MOST_OF_VOLUME - EACH, "a", 1, 4),
            (MOST_OF_VOLUME, "a", 0, 0),
            (usize::MAX, "a", 0, 0),
            ((1 << 20) - EACH, "a", 16, 64),
            ((1 << 20) - 3 * EACH, "a/b/c", 16, 64),
            (0, "a", 16 << 10, 64 << 10),
        ];
        for (content, path, in_volume, in_pod) in table {
            let (mut room, mut together) = (Room::of_pod(), 0);
            for volume in 0..5 {
                room.next_volume();
                let mut taken = 0;
                let error = loop {
                    match room.take(path, content) {
                        Ok(()) => taken += 1,
                        Err(error) => break error,
                    }
                };
                together += taken;
                let is_full = in_pod > 0 && volume == 4;
                assert_eq!(taken, if is_full { 0 } else { in_volume }, "{content} at {path}");
                assert_eq!(matches!(error, VolumeError::TooLargeTogether), is_full, "{content}: {error}");
            }
            assert_eq!(together, in_pod, "{content} at {path}");
        }
    }
}
