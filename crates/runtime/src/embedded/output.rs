//! The output of a command, as far as it is kept. The rest is read and discarded, so that the command is not blocked.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::error::{Error, Result};

/// The maximum number of bytes of its output that a command returns: both streams together must fit into one message of
/// the usual size limit.
pub const MAX_ANSWER: usize = (16 << 20) - 4096;

/// A command with no more output than this takes nothing from the shared memory.
const FREE: usize = 64 << 10;

/// How much memory the larger outputs of all commands may take together.
const MOST_AT_ONCE: usize = 64 << 20;

/// The capacity of a pipe, even if someone other than root has changed its size.
const MAX_PIPE: usize = 1 << 20;

const CHUNK: usize = 8192;

/// The memory that the output of commands shares.
#[derive(Debug)]
pub(crate) struct Memory(Semaphore);

impl Default for Memory {
    fn default() -> Self {
        Self(Semaphore::new(MOST_AT_ONCE))
    }
}

/// The output of one command so far.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// How many bytes of each stream are wanted.
    wanted: usize,
    memory: &'a Memory,
    held: Option<SemaphorePermit<'a>>,
    has_lost: bool,
}

/// Which of the two streams.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    Stdout,
    Stderr,
}

impl<'a> Said<'a> {
    /// Returns an empty output. `wanted` is how many bytes of each stream the caller can use, if that is known.
    pub(super) fn nothing(memory: &'a Memory, wanted: Option<usize>) -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            wanted: wanted.unwrap_or(MAX_ANSWER),
            memory,
            held: None,
            has_lost: false,
        }
    }

    /// Keeps as many bytes as there is room for.
    pub(super) fn keep(&mut self, name: Name, bytes: &[u8]) {
        let so_far = self.stdout.len() + self.stderr.len();
        let stream = match name {
            Name::Stdout => &mut self.stdout,
            Name::Stderr => &mut self.stderr,
        };
        let room = self.wanted.saturating_sub(stream.len()).min(MAX_ANSWER.saturating_sub(so_far));
        let bytes = &bytes[..bytes.len().min(room)];
        if so_far + bytes.len() > FREE && !bytes.is_empty() {
            let Ok(more) = u32::try_from(bytes.len()).map(|more| self.memory.0.try_acquire_many(more)) else {
                return;
            };
            match (more, &mut self.held) {
                (Ok(more), Some(held)) => held.merge(more),
                (Ok(more), none) => *none = Some(more),
                (Err(_), _) => {
                    // Anything kept from here on would follow a gap.
                    (self.has_lost, self.wanted) = (true, 0);
                    return;
                }
            }
        }
        stream.extend_from_slice(bytes);
    }

    /// Whether output was dropped because others hold the memory. A part must not pass for the whole.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }
}

/// One stream of a command.
pub(super) struct Stream {
    pipe: Option<Receiver>,
    chunk: Box<[u8; CHUNK]>,
}

impl Stream {
    /// Creates a stream, and the end that the command writes to.
    pub(super) fn open() -> Result<(Self, OwnedFd)> {
        let failed = |error| Error::io("make a pipe", error);
        let (pipe, end) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let pipe = Receiver::from_owned_fd(pipe).map_err(failed)?;
        Ok((Self { pipe: Some(pipe), chunk: Box::new([0; CHUNK]) }, end))
    }

    /// Waits for bytes; for ever, once the stream has ended.
    pub(super) async fn next(&mut self) -> &[u8] {
        loop {
            let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
            match pipe.read(&mut self.chunk[..]).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(len) => return &self.chunk[..len],
            }
        }
    }

    /// Takes what is there without waiting. It asks the kernel, since our own reactor may not have noticed yet.
    pub(super) fn drain(&mut self, mut keep: impl FnMut(&[u8])) {
        let Some(pipe) = self.pipe.take().and_then(|pipe| pipe.into_nonblocking_fd().ok()) else { return };
        let mut taken = 0;
        // A process that the command left behind may write faster than we read.
        while taken < MAX_PIPE {
            match rustix::io::read(&pipe, &mut self.chunk[..]) {
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return,
                Ok(len) => {
                    taken += len;
                    keep(&self.chunk[..len]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(said: &mut Said<'_>, name: Name, total: usize) {
        let chunk = [b'x'; CHUNK];
        let mut left = total;
        while left > 0 {
            said.keep(name, &chunk[..left.min(CHUNK)]);
            left = left.saturating_sub(CHUNK);
        }
    }

    #[test]
    fn no_more_is_kept_than_somebody_will_read() {
        let memory = Memory::default();
        for (wanted, stdout, stderr, kept) in [
            (Some(10), 4, 40, (4, 10)),
            (Some(10 << 10), 1 << 20, 1 << 20, (10 << 10, 10 << 10)),
            (Some(0), 5, 5, (0, 0)),
            (None, 1 << 20, 7, (1 << 20, 7)),
            (None, 20 << 20, 20 << 20, (MAX_ANSWER, 0)),
            (None, 10 << 20, 20 << 20, (10 << 20, MAX_ANSWER - (10 << 20))),
        ] {
            let mut said = Said::nothing(&memory, wanted);
            tell(&mut said, Name::Stdout, stdout);
            tell(&mut said, Name::Stderr, stderr);
            assert_eq!((said.stdout.len(), said.stderr.len()), kept, "{wanted:?}");
            assert!(!said.has_lost());
        }
        assert_eq!(memory.0.available_permits(), MOST_AT_ONCE, "all is given back");
    }

    #[test]
    fn who_says_much_needs_memory_that_others_do_not_hold_and_who_says_little_does_not() {
        let memory = Memory::default();
        let mut large: Vec<_> = (0..4).map(|_| Said::nothing(&memory, None)).collect();
        for said in &mut large {
            tell(said, Name::Stdout, MAX_ANSWER);
            assert!(!said.has_lost());
        }
        let (mut small, mut one_more) = (Said::nothing(&memory, None), Said::nothing(&memory, None));
        tell(&mut small, Name::Stderr, FREE);
        tell(&mut one_more, Name::Stdout, 2 * FREE + (1 << 20));
        assert_eq!((small.stderr.len(), small.has_lost()), (FREE, false));
        assert!(one_more.has_lost());
        drop(large);
        let mut later = Said::nothing(&memory, None);
        tell(&mut later, Name::Stdout, MAX_ANSWER);
        assert!(!later.has_lost());
    }
}
