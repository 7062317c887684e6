//! A thread that starts children and lives as long as the process.
//!
//! The kernel sends a parent-death signal when the *thread* that forked the child ends. Every test has its own thread,
//! so a runtime shared by several tests would die with the first of them.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Order = (Command, Sender<io::Result<Child>>);

static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();

pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let orders = ORDERS.get_or_init(start_thread);
    let (answer, child) = channel();
    let gone = |_| io::Error::other("the thread that starts children is gone");
    orders.send((command, answer)).map_err(|_| gone(()))?;
    child.recv().map_err(|_| gone(()))?
}

fn start_thread() -> Sender<Order> {
    // Unbounded, but never longer than the number of callers, since each waits for its answer.
    let (orders, inbox) = channel::<Order>();
    std::thread::spawn(move || {
        for (mut command, answer) in inbox {
            let child = command.spawn();
            // The caller is gone, so nobody owns this child, and it is ended.
            if let Err(unheard) = answer.send(child)
                && let Ok(mut child) = unheard.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    });
    orders
}
