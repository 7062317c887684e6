//! Printing by a thread of its own, so that a pipe that nobody reads or a terminal that takes nothing (Ctrl-S, a slow
//! line) holds nobody up: what is said waits, and what waits is bounded by whoever keeps it.

use std::io;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::log::remark;
use crate::signals;

/// How long to wait for the last of it to be printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// What waits to be printed.
pub(crate) trait Waiting: Default + Send + 'static {
    fn is_empty(&self) -> bool;

    /// Adds the lines of a text.
    fn add(&mut self, text: &str);
}

/// Whether more may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Open,
    /// The end has begun. This comes once at least, with nothing if nothing waits.
    Ending,
}

/// What is said here is printed by a thread, once it was started. Clones are the same.
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
    /// There is no thread, before or after: whoever says something prints it.
    #[default]
    Alone,
    Behind,
    /// What waits is printed, and then nothing more.
    Ending,
    /// The thread is stuck, and nobody reads.
    GivenUp,
}

impl<W: Waiting> Behind<W> {
    /// From now on a thread prints, panics too. Without one, whoever says something waits until it is out.
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

    /// Says something, in lines.
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

    /// Changes what waits, if there is a thread that will print it.
    pub(crate) fn put(&self, change: impl FnOnce(&mut W)) {
        let mut state = self.0.state.lock();
        if matches!(state.stage, Stage::Behind | Stage::Ending) {
            change(&mut state.waiting);
            self.0.changed.notify_all();
        }
    }

    /// Waits for what was said to be out, but not for ever.
    pub(crate) fn end(&self) {
        if self.0.state.lock().stage != Stage::Behind {
            return;
        }
        // Not while the state is held: whoever panics just now holds the hook, and waits for the state.
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

/// What a panic says, with where it came from if `RUST_BACKTRACE` asks for that.
fn last_words(panic: &PanicHookInfo<'_>) -> String {
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("{panic}\n{backtrace}"),
        _ => panic.to_string(),
    }
}

/// Says each piece that is written to it: what is logged.
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

    /// What is printed can be seen, and then the thread waits until somebody reads, or nobody ever will.
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
