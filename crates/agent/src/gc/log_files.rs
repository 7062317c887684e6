//! Rotates one log on disk. Blocks.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;

use super::log_plan::{COMPRESSED, LogPolicy, UNFINISHED, plan};

/// What a log needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It is small enough.
    Nothing,
    /// It is too large.
    Rotation,
    /// It is not where it should be: whoever moved it away was lost before the runtime was told. Whatever the runtime
    /// writes goes to the part that was moved, and no size would ever show it.
    Reopening,
}

/// Looks at a log.
pub(super) fn need(log: &Path, policy: LogPolicy) -> Need {
    match log.metadata() {
        Ok(metadata) if metadata.len() >= policy.max_size => Need::Rotation,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Need::Reopening,
        Ok(_) | Err(_) => Need::Nothing,
    }
}

/// Makes room, and moves the log out of the way; gives where it went.
pub(super) fn rotate(log: &Path, policy: LogPolicy, now: Timestamp) -> io::Result<PathBuf> {
    let folder = log.parent().unwrap_or(Path::new("/"));
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let names: Vec<String> =
        fs::read_dir(folder)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let plan = plan(name, &names, policy);
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

/// Takes a rotation back.
pub(super) fn put_back(rotated: &Path, log: &Path) -> io::Result<()> {
    fs::rename(rotated, log)
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
            rotate(&log, policy, at(second)).unwrap();
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
        fs::write(&log, "").unwrap();
        assert_eq!(need(&log, policy), Need::Nothing);
        put_back(&folder.path().join("0.log.19700101-000003"), &log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "part 3\n");
    }
}
