//! The flight recorder: writes all inputs of a PLEG to disk, and plays them back.
//!
//! The core is a pure state machine, so its inputs, each with its moment, are all that has to be recorded: played back,
//! they yield the same events, byte for byte. Recording never holds up the PLEG. A separate thread writes; if it cannot
//! keep up, inputs are left out, and the recording says so and continues from a copy of the core's whole state.
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
//! Text, with one entry per line: eight hexadecimal digits, which are the CRC-32 of the JSON, a space, and a JSON
//! object. Fields are only ever added, so that later versions can read what earlier ones wrote. The first entry of a
//! file is a [`Header`]. What pods run with (environment, annotations, mounts) is in no entry, since the PLEG itself
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
