//! Printing from a separate thread, so that a stalled output (a pipe that nobody reads, a terminal after Ctrl-S, a slow
//! line) blocks nothing else: text waits in a buffer, whose size is limited by its type.

use std::io;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::log::remark;
use crate::signals;

/// How long to wait at the end until everything is printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// A buffer for what waits to be printed.
pub(crate) trait Waiting: Default + Send + 'static {
    fn is_empty(&self) -> bool;

    /// Adds the lines of a text.
    fn add(&mut self, text: &str);
}

/// Whether more may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Open,
    /// The end has begun. The printing function is called with this at least once, with an empty buffer if nothing
    /// waits.
    Ending,
}

/// A printer whose text is printed by a thread, once that has been started. Clones share the printer.
#[derive(Debug)]
pub(crate) struct Behind<W>(Arc<Shared<W>>);

#[derive(Debug, Default)]
struct Shared<W> {
    state: Mutex<State<W>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State<W> {
    stage: Stage,
    waiting: W,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// There is no thread (not yet, or no longer): callers print by themselves.
    #[default]
    Alone,
    Behind,
    /// The buffer is printed, and nothing after it.
    Ending,
    /// The thread is stuck, because nobody reads.
    GivenUp,
}

impl<W: Waiting> Behind<W> {
    /// Starts the thread that prints, including panics. If it cannot be started, callers keep printing by themselves,
    /// and block until that is done.
    pub(crate) fn start(&self, print: impl FnMut(W, Moment) + Send + 'static) {
        self.start_thread(print);
        let behind = self.clone();
        std::panic::set_hook(Box::new(move |panic| behind.print(&last_words(panic))));
    }

    fn start_thread(&self, print: impl FnMut(W, Moment) + Send + 'static) {
        let behind = self.clone();
        let mut state = self.0.state.lock();
        let thread = std::thread::Builder::new().name("print".to_owned());
        let printing = move || {
            signals::output::never_stops_this_thread();
            behind.print_all(print);
        };
        if thread.spawn(printing).is_ok() {
            state.stage = Stage::Behind;
        }
    }

    /// Prints lines of text.
    pub(crate) fn print(&self, text: &str) {
        let mut state = self.0.state.lock();
        match state.stage {
            Stage::Alone => {
                drop(state);
                remark(text.trim_end());
            }
            Stage::Behind | Stage::Ending => {
                state.waiting.add(text);
                self.0.changed.notify_all();
            }
            Stage::GivenUp => {}
        }
    }

    /// Changes the buffer, if there is a thread to print it.
    pub(crate) fn put(&self, change: impl FnOnce(&mut W)) {
        let mut state = self.0.state.lock();
        if matches!(state.stage, Stage::Behind | Stage::Ending) {
            change(&mut state.waiting);
            self.0.changed.notify_all();
        }
    }

    /// Waits, within limits, until everything has been printed.
    pub(crate) fn end(&self) {
        if self.0.state.lock().stage != Stage::Behind {
            return;
        }
        // The state must not be locked here: a thread that panics at this moment holds the hook, and waits for the
        // state.
        drop(std::panic::take_hook());
        let mut state = self.0.state.lock();
        state.stage = Stage::Ending;
        self.0.changed.notify_all();
        let is_ending = |state: &mut State<W>| state.stage == Stage::Ending;
        self.0.changed.wait_while_for(&mut state, is_ending, PATIENCE);
        if state.stage == Stage::Ending {
            state.stage = Stage::GivenUp;
        }
    }

    fn print_all(&self, mut print: impl FnMut(W, Moment)) {
        let mut moment = Moment::Open;
        loop {
            let mut state = self.0.state.lock();
            let is_idle = |state: &mut State<W>| state.stage == Stage::Behind && state.waiting.is_empty();
            self.0.changed.wait_while(&mut state, is_idle);
            if moment == Moment::Ending && state.waiting.is_empty() {
                state.stage = Stage::Alone;
                self.0.changed.notify_all();
                return;
            }
            if state.stage != Stage::Behind {
                moment = Moment::Ending;
            }
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            print(waiting, moment);
        }
    }
}

impl<W> Clone for Behind<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: Default> Default for Behind<W> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Formats a panic, with its backtrace if `RUST_BACKTRACE` asks for one.
fn last_words(panic: &PanicHookInfo<'_>) -> String {
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("{panic}\n{backtrace}"),
        _ => panic.to_string(),
    }
}

/// Prints each piece that is written, which is how log messages get here.
impl<W: Waiting> io::Write for Behind<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.print(&String::from_utf8_lossy(piece));
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::backlog::Backlog;

    type Printed = (Vec<String>, Moment);

    /// Starts a printer whose prints can be observed. Its thread waits at each one until it is allowed to continue, or
    /// the permission is dropped.
    fn started() -> (Behind<Backlog>, mpsc::Receiver<Printed>, mpsc::Sender<()>) {
        let behind = Behind::<Backlog>::default();
        let (printing, is_printing) = mpsc::channel();
        let (reads, reader) = mpsc::channel();
        behind.start_thread(move |mut lines, moment| {
            printing.send((lines.take().collect(), moment)).expect("the test waits");
            let _ = reader.recv();
        });
        (behind, is_printing, reads)
    }

    #[test]
    fn nobody_waits_for_a_reader_and_what_is_lost_is_counted() {
        let (behind, is_printing, reads) = started();
        let next = || is_printing.recv().expect("it prints");
        behind.print("first");
        assert_eq!(next(), (vec!["first".to_owned()], Moment::Open));
        for number in 0..1_500 {
            behind.print(&format!("{number}"));
        }
        reads.send(()).expect("it waits");
        let (lines, _) = next();
        assert_eq!(lines[..2], ["(500 lines omitted)", "500"]);
        assert_eq!(lines.last().expect("lines"), "1499");
        drop(reads);
        behind.end();
        assert_eq!(next(), (vec![], Moment::Ending), "the end is told, though nothing waits");
        assert_eq!(behind.0.state.lock().stage, Stage::Alone);
    }

    #[test]
    fn what_comes_while_it_ends_is_printed() {
        let (behind, is_printing, reads) = started();
        let ending = std::thread::spawn({
            let behind = behind.clone();
            move || behind.end()
        });
        assert_eq!(is_printing.recv().expect("it prints"), (vec![], Moment::Ending));
        behind.print("goodbye");
        drop(reads);
        assert_eq!(is_printing.recv().expect("it prints"), (vec!["goodbye".to_owned()], Moment::Ending));
        ending.join().expect("it ends");
    }

    #[test]
    fn an_end_does_not_wait_for_ever() {
        let (behind, _is_printing, _reads) = started();
        behind.print("nobody reads this");
        behind.end();
        assert_eq!(behind.0.state.lock().stage, Stage::GivenUp);
        behind.print("nor this");
        assert!(behind.0.state.lock().waiting.is_empty());
    }
}
