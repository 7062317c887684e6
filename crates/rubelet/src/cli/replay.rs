//! `rubelet replay`: plays back a recording.

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pleg::record::{Damage, Played, RULES, Recording, Replay};
use pleg::{Now, Stamp};

use crate::clean::clean_lines;
use crate::exit::Failure;
use crate::log::remark;
use crate::watch::{Filter, Format, event_line};

/// The arguments of `rubelet replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit code is 6 if the recording is damaged; what comes before the damage is still replayed."
)]
pub(super) struct Args {
    /// A file made by `rubelet record`, or one from the folder of `rubelet run --record-dir`
    file: PathBuf,

    /// Stop at this time (2026-11-16T12:00:00Z), or this long after the start (90s)
    #[arg(long, value_name = "TIME", value_parser = Until::parse)]
    until: Option<Until>,

    /// Show only pods in these namespaces
    #[arg(long, short, value_delimiter = ',')]
    namespace: Vec<String>,

    /// Show only these pods, by name
    #[arg(long, value_delimiter = ',')]
    pod: Vec<String>,

    /// Print the PLEG's health at the end instead of the events
    #[arg(long)]
    health: bool,

    /// Output format; JSON is one object per line
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
enum Until {
    Moment(jiff::Timestamp),
    After(Duration),
}

impl Until {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(moment) => Ok(Self::Moment(moment)),
            Err(_) => crate::span::parse(text).map(Self::After).map_err(|_| {
                format!("{text:?} is neither a time (2026-11-16T12:00:00Z) nor a duration (90s)")
            }),
        }
    }

    /// Converts it to a stamp of the recording's clock, given the first reading of that clock and the last one so far.
    fn stamp(self, first: Now, last: Now) -> Stamp {
        match self {
            Self::Moment(moment) => {
                let ahead = (moment.as_nanosecond() - i128::from(last.wall.0)).max(0);
                last.stamp.plus(Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX)))
            }
            Self::After(time) => first.stamp.plus(time).max(last.stamp),
        }
    }

    fn is_before(self, now: Now, first: Now) -> bool {
        match self {
            Self::Moment(moment) => i128::from(now.wall.0) <= moment.as_nanosecond(),
            Self::After(time) => first.stamp.until(now.stamp) <= time,
        }
    }
}

/// Why the replay ended early.
enum Trouble {
    /// The path is a folder, with these files in it.
    Folder(Vec<String>),
    File(io::Error),
    Print(io::Error),
    Damage(Damage),
}

pub(super) fn run(args: &Args) -> ExitCode {
    match replay(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Trouble::Print(error)) => super::fail(Failure::System, &format!("cannot print: {error}")),
        Err(Trouble::Folder(files)) => {
            let there = match &files[..] {
                [] => "and it is empty".to_owned(),
                files => format!("replay its files one by one, oldest first: {}", files.join(", ")),
            };
            super::fail(Failure::Usage, &format!("{} is a folder; {there}", args.file.display()))
        }
        Err(Trouble::File(error)) => {
            super::fail(Failure::Usage, &format!("cannot open {}: {error}", args.file.display()))
        }
        Err(Trouble::Damage(damage)) => {
            super::fail(Failure::Recording, &format!("{}: {damage}", args.file.display()))
        }
    }
}

fn replay(args: &Args) -> Result<(), Trouble> {
    let filter = Filter { namespaces: args.namespace.clone(), pods: args.pod.clone(), kinds: Vec::new() };
    if args.file.is_dir() {
        let entries = std::fs::read_dir(&args.file).map_err(Trouble::File)?;
        let mut files: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        return Err(Trouble::Folder(files));
    }
    let file = File::open(&args.file).map_err(Trouble::File)?;
    let mut replay = Replay::new(Recording::open(BufReader::new(file)).map_err(Trouble::Damage)?);
    if let Some(other) = other_rules(replay.header().rules) {
        remark(other);
    }
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    let first = std::cell::Cell::new(None);
    let is_wanted = |now: Now| {
        let first = first.get().unwrap_or_else(|| {
            first.set(Some(now));
            now
        });
        args.until.is_none_or(|until| until.is_before(now, first))
    };
    let (mut shown, mut others) = (0_u64, 0_u64);
    let ended = loop {
        match replay.next_while(is_wanted) {
            Ok(Some(Played::Event(event))) if !args.health && filter.shows(&event) => {
                writeln!(out, "{}", event_line(&event, args.output)).map_err(Trouble::Print)?;
                shown += 1;
            }
            Ok(Some(Played::Event(_))) => others += 1,
            Ok(Some(Played::Gap(inputs))) => {
                out.flush().map_err(Trouble::Print)?;
                remark(format_args!("{inputs} inputs are missing here: they could not be written"));
            }
            Ok(None) => break Ok(()),
            Err(damage) => break Err(Trouble::Damage(damage)),
        }
    };
    if args.health {
        let health = replay
            .now()
            .and_then(|last| replay.health(as_of(args.until, first.get(), last, replay.has_more())));
        match health {
            Some(health) => {
                let text = match args.output {
                    Format::Text => clean_lines(&health.to_string()),
                    Format::Json => {
                        serde_json::to_string(&health).expect("health has no keys that are not text")
                    }
                };
                writeln!(out, "{text}").map_err(Trouble::Print)?;
            }
            None => remark("nothing was recorded up to that moment, so the health is unknown"),
        }
    } else if shown == 0 && ended.is_ok() {
        remark(match others {
            0 => "no events".to_owned(),
            _ => format!("no matching events ({others} others)"),
        });
    }
    out.flush().map_err(Trouble::Print)?;
    if replay.lost_answers() > 0 {
        remark(format_args!(
            "{} recorded answers match no call of this version, so events may be missing",
            replay.lost_answers()
        ));
    }
    ended
}

/// Says what to expect of a recording that was made under other rules than the current ones.
fn other_rules(rules: u32) -> Option<String> {
    (rules != RULES).then(|| {
        format!(
            "recorded by a PLEG with rules {rules}, replayed with rules {RULES}: events may differ from the original \
             ones"
        )
    })
}

/// Returns the stamp that was asked for, but none after the end of the recording, which says nothing about later times.
fn as_of(until: Option<Until>, first: Option<Now>, last: Now, has_more: bool) -> Stamp {
    match until {
        Some(until) if has_more => until.stamp(first.unwrap_or(last), last),
        Some(_) | None => last.stamp,
    }
}

#[cfg(test)]
mod tests {
    use rubelet_model::UnixNanos;

    use super::*;

    fn now(seconds: u64) -> Now {
        let nanos = seconds * 1_000_000_000;
        Now { stamp: Stamp::from_nanos(nanos), wall: UnixNanos(nanos as i64) }
    }

    #[test]
    fn a_recording_by_other_rules_is_said_to_be_one() {
        assert_eq!(other_rules(RULES), None);
        for rules in [0, RULES - 1, RULES + 1] {
            let said = other_rules(rules).expect("a remark");
            assert!(said.starts_with(&format!("recorded by a PLEG with rules {rules}, ")), "{said}");
        }
    }

    #[test]
    fn health_is_as_of_the_moment_that_was_asked_for() {
        let (first, last) = (Some(now(10)), now(13));
        let after = |seconds| Some(Until::After(Duration::from_secs(seconds)));
        let at = |text: &str| Some(Until::parse(text).expect("a moment"));
        for (until, has_more, expected) in [
            (None, true, 13),
            (after(200), true, 210),
            (after(200), false, 13),
            (at("1970-01-01T00:03:20Z"), true, 200),
            (at("1970-01-01T00:03:20Z"), false, 13),
        ] {
            assert_eq!(as_of(until, first, last, has_more), now(expected).stamp, "{until:?}");
        }
    }
}
