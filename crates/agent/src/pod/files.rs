//! The files of a pod outside its volumes: logs, the hosts file, and the termination messages ("last words") of
//! containers.
//!
//! All of this blocks: call it off the async threads.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::config::LogName;
use crate::volumes::{VolumeError, remove_tree};

/// The longest last words that are read, in bytes.
const MOST_LAST_WORDS: u64 = 4096;
/// How much of its log is shown if it left no last words, in bytes.
const MOST_OF_LOG: u64 = 2048;
const MOST_LOG_LINES: usize = 80;
/// How much of its log is read: far more than is shown, including the prefixes of all those lines.
const MOST_READ_OF_LOG: u64 = 64 << 10;

/// Returns how often a container was started before, by the logs that it left: one more than the highest number.
pub(super) fn restart_count_by_logs(log_directory: &Path, container: &str) -> u32 {
    let folder = log_directory.join(container);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(folder = %folder.display(), %error, "cannot list logs; counting restarts from 0");
            }
            return 0;
        }
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| LogName::read(&name))
        .map(|name| name.restart_count.saturating_add(1))
        .max()
        .unwrap_or(0)
}

/// Removes the logs of the instances of a container that have these numbers, including rotated ones.
pub(super) fn remove_logs(folder: &Path, numbers: impl Fn(u32) -> bool) -> io::Result<()> {
    remove_files(folder, |name| LogName::read(name).is_some_and(|name| numbers(name.restart_count)))
}

/// Removes the last words of the instances of a container that have these numbers.
pub(super) fn remove_last_words(folder: &Path, numbers: impl Fn(u32) -> bool) -> io::Result<()> {
    remove_files(folder, |name| u32::from_str_radix(name, 16).is_ok_and(&numbers))
}

fn remove_files(folder: &Path, are_gone: impl Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&are_gone) {
            gone_is_fine(fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

/// Removes all logs of a pod, whatever its name is: `<namespace>_<name>_<uid>`. Anything mounted in there stays.
pub(crate) fn remove_logs_of_pod(logs: &Path, uid: &str) -> Result<(), VolumeError> {
    let unreadable = || VolumeError::io("read", logs);
    let entries = match fs::read_dir(logs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(unreadable())?,
    };
    for entry in entries {
        let entry = entry.map_err(unreadable())?;
        let is_its = entry
            .file_name()
            .to_str()
            .and_then(|name| name.rsplit_once('_'))
            .is_some_and(|(_, of)| of == uid);
        if is_its {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove_tree(&path)?;
            } else {
                gone_is_fine(fs::remove_file(&path)).map_err(VolumeError::io("remove", path))?;
            }
        }
    }
    Ok(())
}

/// Returns where an instance of a container leaves its last words. The name identifies the instance, so that a later
/// agent finds it.
pub(super) fn last_words_file(folder: &Path, restart_count: u32) -> PathBuf {
    folder.join(format!("{restart_count:08x}"))
}

/// Creates the file for the last words of a container, writable for all users.
pub(super) fn make_last_words_file(folder: &Path, restart_count: u32) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = last_words_file(folder, restart_count);
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(&path)?;
    // The mode above is subject to the umask, but the container may run as any user.
    file.set_permissions(fs::Permissions::from_mode(0o666))?;
    Ok(path)
}

/// Reads the last words of an instance of a container.
pub(super) fn last_words(folder: &Path, restart_count: u32) -> io::Result<Option<String>> {
    let tail = tail(&last_words_file(folder, restart_count), MOST_LAST_WORDS)?;
    Ok(tail.map(|tail| tail.text).filter(|words| !words.is_empty()))
}

/// Reads the end of the log of a container, for containers that fall back to it when they leave no last words.
pub(super) fn end_of_log(log: &Path) -> io::Result<Option<String>> {
    let Some(Tail { text, is_cut }) = tail(log, MOST_READ_OF_LOG)? else { return Ok(None) };
    // `<time> <stream> <P|F> <text>`. A partial line (`P`) continues in the next line.
    let lines: Vec<(bool, &str)> = text
        .lines()
        .enumerate()
        .filter_map(|(number, line)| {
            // What is shown of a line that was cut is far behind its prefix.
            if is_cut && number == 0 {
                return Some((false, line));
            }
            let mut words = line.splitn(4, ' ').skip(2);
            Some((words.next()?.starts_with('P'), words.next()?))
        })
        .collect();
    let from = lines.len().saturating_sub(MOST_LOG_LINES);
    let mut shown = String::new();
    for (is_part, line) in &lines[from..] {
        shown.push_str(line);
        if !is_part {
            shown.push('\n');
        }
    }
    let mut start = shown.len().saturating_sub(usize::try_from(MOST_OF_LOG).unwrap_or(usize::MAX));
    while !shown.is_char_boundary(start) {
        start += 1;
    }
    Ok(Some(shown[start..].to_owned()).filter(|shown| !shown.is_empty()))
}

/// The end of a file.
struct Tail {
    text: String,
    /// Whether there was more before it.
    is_cut: bool,
}

fn tail(path: &Path, most: u64) -> io::Result<Option<Tail>> {
    let mut file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(Tail { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut: length > most }))
}

/// Writes the hosts file.
pub(super) fn write_hosts(path: &Path, text: &[u8]) -> io::Result<()> {
    // In place: running containers have this very file mounted.
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_counts_survive_in_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(restart_count_by_logs(folder.path(), "c"), 0);
        fs::create_dir(folder.path().join("c")).unwrap();
        for name in ["0.log", "2.log.20260801-120000.gz", "1.log", "note"] {
            fs::write(folder.path().join("c").join(name), "").unwrap();
        }
        assert_eq!(restart_count_by_logs(folder.path(), "c"), 3);
        remove_logs(&folder.path().join("c"), |number| number == 2).unwrap();
        assert_eq!(restart_count_by_logs(folder.path(), "c"), 2);
        remove_logs(&folder.path().join("gone"), |_| true).unwrap();
        fs::write(folder.path().join("c/4294967295.log"), "").unwrap();
        assert_eq!(restart_count_by_logs(folder.path(), "c"), u32::MAX, "there is no higher one");
    }

    #[test]
    fn the_logs_of_one_pod_are_removed_and_no_others() {
        let logs = tempfile::tempdir().unwrap();
        for name in ["ns_web_1", "ns_web_11", "ns_db_2"] {
            fs::create_dir_all(logs.path().join(name).join("c")).unwrap();
        }
        remove_logs_of_pod(logs.path(), "1").unwrap();
        remove_logs_of_pod(logs.path(), "1").unwrap();
        let mut left: Vec<_> =
            fs::read_dir(logs.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["ns_db_2", "ns_web_11"]);
    }

    #[test]
    fn removing_logs_never_crosses_a_mount() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, logs) = (folder.path().join("precious"), folder.path().join("logs"));
        let inside = logs.join("ns_web_1/c");
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("data"), "keep me").unwrap();
        std::os::unix::fs::symlink(&precious, logs.join("ns_other_1")).unwrap();
        rustix::mount::mount_bind(&precious, &inside).unwrap();
        let removed = remove_logs_of_pod(&logs, "1");
        // Before anything can fail, so that a failed test leaves no mounts behind.
        rustix::mount::unmount(&inside, rustix::mount::UnmountFlags::empty()).unwrap();
        assert!(matches!(&removed, Err(VolumeError::StillMounted(path)) if *path == inside), "{removed:?}");
        remove_logs_of_pod(&logs, "1").unwrap();
        assert_eq!(fs::read_dir(&logs).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(precious.join("data")).unwrap(), "keep me");
    }

    #[test]
    fn last_words_are_cut_at_the_front() {
        let folder = tempfile::tempdir().unwrap();
        let path = make_last_words_file(folder.path(), 3).unwrap();
        assert_eq!(path.file_name().unwrap(), "00000003");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert_eq!(last_words(folder.path(), 3).unwrap(), None, "nothing said is nothing");
        fs::write(&path, "x".repeat(5000) + "end").unwrap();
        let words = last_words(folder.path(), 3).unwrap().unwrap();
        assert!(words.len() == 4096 && words.ends_with("xend"));
        assert_eq!(last_words(folder.path(), 4).unwrap(), None);
        fs::create_dir(last_words_file(folder.path(), 5)).unwrap();
        assert!(last_words(folder.path(), 5).is_err(), "who cannot be heard has not said nothing");
    }

    #[test]
    fn the_end_of_a_log_is_its_text_without_its_marks() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        let line = |number: usize| format!("2026-08-01T12:00:00.0Z stderr F line {number}\n");
        fs::write(&log, (0..100).map(line).collect::<String>()).unwrap();
        let text = end_of_log(&log).unwrap().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[79]), (80, "line 20", "line 99"));
        assert!(text.ends_with("line 99\n"));
        fs::write(&log, "2026-08-01T12:00:00.0Z stdout P one \n2026-08-01T12:00:00.0Z stdout F line\n")
            .unwrap();
        assert_eq!(end_of_log(&log).unwrap().as_deref(), Some("one line\n"));
        for long in [12_000, 200_000] {
            fs::write(&log, format!("2026-08-01T12:00:00.0Z stderr F {}\n", "x".repeat(long))).unwrap();
            assert_eq!(end_of_log(&log).unwrap(), Some("x".repeat(2047) + "\n"), "of one line of {long}");
        }
    }
}
