//! The standard streams of a process that is about to become a container's program.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Uid, fchown, fstat};
use rustix::io::Errno;

use crate::embedded::error::{Error, Result};

/// Changes the owner of those standard streams that are pipes. A program that may write to a stream must also be able
/// to open it by name (`/dev/stderr`), as programs and scripts do. Streams that are not pipes belong to others.
pub(crate) fn give_streams_to(user: u32) -> Result<()> {
    give_to(rustix::stdio::stdin(), user)?;
    give_to(rustix::stdio::stdout(), user)?;
    give_to(rustix::stdio::stderr(), user)
}

fn give_to(stream: impl AsFd, user: u32) -> Result<()> {
    let failed = |errno| Error::io(format!("give a stream to user {user}"), errno);
    let found = fstat(&stream).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Fifo || found.st_uid == user {
        return Ok(());
    }
    match fchown(&stream, Some(Uid::from_raw(user)), None) {
        // A user that this user namespace does not have: the next step gives a better error.
        Ok(()) | Err(Errno::INVAL | Errno::PERM) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pipes_change_hands() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can give something away");
            return;
        }
        let owner = |stream: &dyn AsFd| fstat(stream.as_fd()).unwrap().st_uid;
        let (_reader, pipe) = rustix::pipe::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        give_to(&pipe, 1234).unwrap();
        give_to(&file, 1234).unwrap();
        assert_eq!((owner(&pipe), owner(&file)), (1234, 0));
    }
}
