//! Reads how much space a disk has. Blocks.

use std::io;
use std::path::Path;

use super::image_plan::Room;

/// Returns the space on the disk that holds `path`.
pub(super) fn room(path: &Path) -> io::Result<Room> {
    let facts = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    Ok(Room { capacity: bytes(facts.f_blocks), available: bytes(facts.f_bavail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_room_or_is_an_error() {
        let root = room(Path::new("/")).unwrap();
        assert!(root.capacity > 0 && root.available <= root.capacity);
        assert!(room(Path::new("/no/such/folder")).is_err());
    }
}
