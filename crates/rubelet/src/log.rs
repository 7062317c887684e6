//! Standard error, for what a program that goes on says of itself.
//!
//! A thread of its own prints, so that a pipe that nobody reads holds nobody up: lines wait, the oldest are left out when
//! there are too many, and how many is said as soon as somebody reads again.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::backlog::Backlog;

/// How long to wait for the last of it to be printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says something on standard error. Nobody may be there to read it, which is no reason to end.
pub(crate) fn remark(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stage: Stage,
    backlog: Backlog,
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

impl Log {
    /// From now on a thread prints, panics too. Until then, and without one, whoever says something waits until it is out.
    pub(crate) fn start(&self) {
        self.start_with(|text| {
            // Nobody may be there to read it, which is no reason to end.
            let _ = anstream::stderr().lock().write_all(text.as_bytes());
        });
        let log = self.clone();
        std::panic::set_hook(Box::new(move |panic| log.print(&last_words(panic))));
    }

    fn start_with(&self, print: impl Fn(&str) + Send + 'static) {
        let log = self.clone();
        let mut state = self.0.state.lock();
        if std::thread::Builder::new().name("log".to_owned()).spawn(move || log.print_all(print)).is_ok() {
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
                state.backlog.add(text);
                self.0.changed.notify_all();
            }
            Stage::GivenUp => {}
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
        let is_ending = |state: &mut State| state.stage == Stage::Ending;
        self.0.changed.wait_while_for(&mut state, is_ending, PATIENCE);
        if state.stage == Stage::Ending {
            state.stage = Stage::GivenUp;
        }
    }

    fn print_all(&self, print: impl Fn(&str)) {
        loop {
            let mut state = self.0.state.lock();
            let is_idle = |state: &mut State| state.stage == Stage::Behind && state.backlog.is_empty();
            self.0.changed.wait_while(&mut state, is_idle);
            if state.backlog.is_empty() {
                state.stage = Stage::Alone;
                self.0.changed.notify_all();
                return;
            }
            let text: String = state.backlog.take().map(|line| line + "\n").collect();
            drop(state);
            print(&text);
        }
    }
}

/// What a panic says, with where it came from if `RUST_BACKTRACE` asks for that.
pub(crate) fn last_words(panic: &PanicHookInfo<'_>) -> String {
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("{panic}\n{backtrace}"),
        _ => panic.to_string(),
    }
}

/// Says each piece that is written to it: what is logged.
impl io::Write for Log {
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

    #[test]
    fn nobody_waits_for_a_reader_and_what_is_lost_is_counted() {
        let log = Log::default();
        let (printing, is_printing) = mpsc::channel();
        let (reads, reader) = mpsc::channel::<()>();
        log.start_with(move |text| {
            printing.send(text.to_owned()).expect("the test waits");
            // Ready when somebody reads, and when nobody ever will.
            let _ = reader.recv();
        });
        log.print("first");
        assert_eq!(is_printing.recv().expect("it prints"), "first\n");
        for number in 0..1_500 {
            log.print(&format!("{number}"));
        }
        reads.send(()).expect("it waits");
        let text = is_printing.recv().expect("it prints");
        assert!(text.starts_with("(500 lines were left out)\n500\n501\n"), "{text}");
        assert!(text.ends_with("\n1499\n"));
        log.print("last");
        drop(reads);
        log.end();
        assert_eq!(is_printing.recv().expect("it prints"), "last\n");
        assert_eq!(log.0.state.lock().stage, Stage::Alone);
    }

    #[test]
    fn an_end_does_not_wait_for_ever() {
        let log = Log::default();
        let (_reads, reader) = mpsc::channel::<()>();
        log.start_with(move |_| {
            let _ = reader.recv();
        });
        log.print("nobody reads this");
        log.end();
        assert_eq!(log.0.state.lock().stage, Stage::GivenUp);
        log.print("nor this");
    }
}
