//! Rotates one log on disk. Blocks.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::log_plan::{COMPRESSED, LogPolicy, UNFINISHED, plan};
use crate::log_reader::{FileId, LogReader};

/// What needs to be done for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It is small enough.
    Nothing,
    /// It is too large.
    Rotation,
    /// It is not in its place: whatever moved it was lost before the runtime was told to reopen it. The runtime still
    /// writes to the part that was moved, and no size would ever show that.
    Reopening,
}

/// Checks a log.
pub(super) fn need(log: &Path, policy: LogPolicy) -> Need {
    match log.metadata() {
        Ok(metadata) if metadata.len() >= policy.max_size => Need::Rotation,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Need::Reopening,
        Ok(_) | Err(_) => Need::Nothing,
    }
}

/// Frees space, and moves the log away; returns where it went. Parts that the reader has yet to read stay.
pub(super) fn rotate(
    log: &Path,
    policy: LogPolicy,
    reader: Option<&LogReader>,
    now: Timestamp,
) -> io::Result<PathBuf> {
    let folder = log.parent().unwrap_or(Path::new("/"));
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let names: Vec<String> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let unread = reader.and_then(|reader| first_unread(reader, folder, name, &names));
    let plan = plan(name, &names, policy, unread.as_deref());
    for name in &plan.remove {
        fs::remove_file(folder.join(name))?;
    }
    for name in &plan.compress {
        compress(&folder.join(name))?;
    }
    let rotated = folder.join(format!("{name}.{}", now.strftime("%Y%m%d-%H%M%S")));
    fs::rename(log, &rotated)?;
    Ok(rotated)
}

/// Returns the oldest rotated part of a log that the reader has yet to read.
fn first_unread(reader: &LogReader, folder: &Path, log: &str, names: &[String]) -> Option<String> {
    let number = log.strip_suffix(".log")?.parse().ok()?;
    let prefix = format!("{log}.");
    let mut parts: Vec<(&str, FileId)> = names
        .iter()
        .filter(|name| name.starts_with(&prefix) && !name.ends_with(UNFINISHED))
        .filter_map(|name| {
            let metadata = folder.join(name).metadata().ok()?;
            Some((name.as_str(), (metadata.dev(), metadata.ino())))
        })
        .collect();
    parts.sort_unstable();
    reader.first_unread(folder, number, &parts).map(str::to_owned)
}

/// Undoes a rotation, unless the runtime has reopened the log after all.
pub(super) fn put_back(rotated: &Path, log: &Path) -> io::Result<()> {
    match renameat_with(CWD, rotated, CWD, log, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Ok(()),
        moved => Ok(moved?),
    }
}

fn compress(part: &Path) -> io::Result<()> {
    let ending = |ending: &str| {
        let mut name = part.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let unfinished = ending(UNFINISHED);
    let mut writer = GzEncoder::new(File::create(&unfinished)?, Compression::default());
    io::copy(&mut BufReader::new(File::open(part)?), &mut writer)?;
    writer.finish()?.sync_all()?;
    fs::rename(&unfinished, ending(COMPRESSED))?;
    fs::remove_file(part)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_log_is_moved_away_and_older_parts_are_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        let policy = LogPolicy { max_size: 4, max_files: 3 };
        let at = |second| Timestamp::from_second(second).unwrap();
        for second in 0..4 {
            fs::write(&log, format!("part {second}\n")).unwrap();
            assert_eq!(need(&log, policy), Need::Rotation);
            rotate(&log, policy, None, at(second)).unwrap();
            assert_eq!(
                need(&log, policy),
                Need::Reopening,
                "nothing is there until the runtime opens it anew"
            );
        }
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["0.log.19700101-000002.gz", "0.log.19700101-000003"]);
        let packed = File::open(folder.path().join("0.log.19700101-000002.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "part 2\n");
        let newest = folder.path().join("0.log.19700101-000003");
        fs::write(&log, "").unwrap();
        assert_eq!(need(&log, policy), Need::Nothing);
        put_back(&newest, &log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "", "the runtime writes there");
        assert!(newest.exists());
        fs::remove_file(&log).unwrap();
        put_back(&newest, &log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "part 3\n");
    }

    #[test]
    fn a_reader_that_is_late_finds_every_part() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("7.log");
        let (policy, reader) = (LogPolicy { max_size: 1, max_files: 2 }, LogReader::default());
        let rotate_at = |second: i64| {
            fs::write(&log, format!("{second}")).unwrap();
            rotate(&log, policy, Some(&reader), Timestamp::from_second(second).unwrap()).unwrap()
        };
        let parts: Vec<PathBuf> = (0..4).map(rotate_at).collect();
        assert!(parts.iter().all(|part| part.exists()), "nobody has read anything");
        let metadata = parts[2].metadata().unwrap();
        reader.note_reading(folder.path(), 7, (metadata.dev(), metadata.ino()));
        rotate_at(4);
        let left: Vec<bool> = parts.iter().map(|part| part.exists()).collect();
        assert_eq!(left, [false, false, true, true]);
    }
}
