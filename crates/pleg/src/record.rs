//! The flight recorder: everything that a PLEG was told, on disk, and the means to play it again.
//!
//! The core is a pure state machine, so its inputs, each with its moment, are all there is to record: played again,
//! they give the same events, byte for byte. Recording never holds the PLEG up. A thread writes; if it cannot keep up,
//! inputs are left out, the recording says so, and goes on from a copy of the core's whole state.
//!
//! ```no_run
//! use pleg::record::{Played, Recording, Replay};
//!
//! let file = std::io::BufReader::new(std::fs::File::open("incident")?);
//! let mut replay = Replay::new(Recording::open(file)?);
//! while let Some(played) = replay.next_while(|_| true)? {
//!     match played {
//!         Played::Event(event) => println!("{} {}", event.pod, event.kind),
//!         Played::Gap(inputs) => println!("{inputs} inputs are missing"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Format
//!
//! Text, one entry a line: eight hexadecimal digits, the CRC-32 of what follows the blank after them, and a JSON
//! object. Fields are only ever added, so that a later version reads what an earlier one wrote. The first entry of a
//! file is a [`header`](Header). What pods run with (environment, annotations, mounts) is in no entry: the PLEG itself
//! does not know it.

mod entry;
mod files;
mod frame;
mod reader;
mod recorder;
mod replay;
mod sink;

pub use entry::{Header, RULES};
pub use reader::{Damage, Recording};
pub(crate) use recorder::Noted;
pub use recorder::Recorder;
pub use replay::{Played, Replay};
pub use sink::RecordError;
