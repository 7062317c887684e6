//! Writes the files of a volume so that a reader sees either all old ones or all new ones.
//!
//! ```text
//! ..2026_11_16_04_00_00.123456789/   the files
//! ..data -> ..2026_11_16_04_00_00.123456789
//! name   -> ..data/name              for each top-level name
//! ```
//! A change creates a new timestamped folder and renames a link over `..data`. Containers keep the volume's folder
//! mounted and follow the links. Only the agent writes here.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::VolumeError;
use super::ownership::FileGroup;
use super::payload::{File, Files};
use super::removal::remove_tree;

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;
const DEEPEST: usize = 64;

/// Makes `root` contain exactly `files`. Returns whether anything had to be written.
pub(super) fn write(
    root: &Path,
    files: &Files,
    group: Option<FileGroup>,
    now: Timestamp,
) -> Result<bool, VolumeError> {
    for path in files.keys() {
        validate(path)?;
    }
    let current = current_folder(root)?;
    let up_to_date = match &current {
        Some(folder) => holds_exactly(&root.join(folder), files).map_err(VolumeError::io("compare", root))?,
        None => false,
    };
    if !up_to_date {
        let next = new_folder(root, now)?;
        if let Err(error) = fill(root, &next, files, group) {
            // Every attempt creates a folder: on a full disk, they would fill it further. What cannot be removed now is
            // removed by the next attempt that succeeds.
            let _ = remove_tree(&root.join(&next));
            return Err(error);
        }
    }
    link_names(root, files).map_err(VolumeError::io("create links in", root))?;
    remove_stale(root, files)?;
    Ok(!up_to_date)
}

/// Whether files have ever been written here.
pub(super) fn is_written(root: &Path) -> bool {
    current_folder(root).is_ok_and(|folder| folder.is_some())
}

/// Writes the files to a folder, and publishes it in place of the previous one.
fn fill(root: &Path, next: &Path, files: &Files, group: Option<FileGroup>) -> Result<(), VolumeError> {
    let folder = root.join(next);
    write_files(&folder, files)?;
    if let Some(group) = group {
        // All of the volume: the links in its own folder then belong to the group as well.
        group.take_files(root).map_err(VolumeError::io("change the group of the files in", root))?;
    }
    publish(root, next).map_err(VolumeError::io("publish", root))
}

fn validate(path: &str) -> Result<(), VolumeError> {
    let refuse = |why| Err(VolumeError::Path { path: path.to_owned(), why });
    if path.is_empty() {
        return refuse("it is empty");
    }
    if path.len() > LONGEST_PATH {
        return refuse("it is longer than 4096 bytes");
    }
    if path.starts_with('/') {
        return refuse("it must be relative");
    }
    if path.starts_with("..") {
        return refuse("it must not start with '..'");
    }
    if path.split('/').count() > DEEPEST {
        return refuse("it has more than 64 parts");
    }
    for part in path.split('/') {
        match part {
            "" | "." => return refuse("it has an empty part"),
            ".." => return refuse("it must not contain '..'"),
            part if part.len() > LONGEST_NAME => return refuse("a part of it is longer than 255 bytes"),
            part if part.contains('\0') => return refuse("it has a zero byte"),
            _ => {}
        }
    }
    Ok(())
}

fn current_folder(root: &Path) -> Result<Option<PathBuf>, VolumeError> {
    match fs::read_link(root.join(DATA)) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(VolumeError::io("read the link", root.join(DATA))(error)),
    }
}

fn holds_exactly(folder: &Path, files: &Files) -> io::Result<bool> {
    let mut found = BTreeSet::new();
    match paths_below(folder, Path::new(""), &mut found) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        result => result?,
    }
    if !found.iter().map(String::as_str).eq(files.keys().map(String::as_str)) {
        return Ok(false);
    }
    for (path, file) in files {
        if fs::read(folder.join(path))? != file.content {
            return Ok(false);
        }
    }
    Ok(true)
}

fn paths_below(folder: &Path, inside: &Path, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder.join(inside))? {
        let entry = entry?;
        let path = inside.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            paths_below(folder, &path, found)?;
        } else {
            found.insert(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

fn new_folder(root: &Path, now: Timestamp) -> Result<PathBuf, VolumeError> {
    let time = now.to_zoned(TimeZone::UTC).strftime("..%Y_%m_%d_%H_%M_%S");
    for number in i64::from(now.subsec_nanosecond()).. {
        let name = PathBuf::from(format!("{time}.{number:09}"));
        match super::layout::create_directory(&root.join(&name), 0o755) {
            Ok(true) => return Ok(name),
            Ok(false) => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are more numbers than files on a disk")
}

fn write_files(folder: &Path, files: &Files) -> Result<(), VolumeError> {
    for (path, file) in files {
        let path = folder.join(path);
        write_file(folder, &path, file).map_err(VolumeError::io("write", path))?;
    }
    Ok(())
}

fn write_file(folder: &Path, path: &Path, file: &File) -> io::Result<()> {
    let mut parent = folder.to_path_buf();
    let inside = path.strip_prefix(folder).ok().and_then(Path::parent).unwrap_or(Path::new(""));
    for part in inside.components() {
        parent.push(part);
        match fs::create_dir(&parent) {
            Ok(()) => fs::set_permissions(&parent, Permissions::from_mode(0o755))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    open.write_all(&file.content)?;
    open.set_permissions(Permissions::from_mode(file.mode))
}

fn publish(root: &Path, folder: &Path) -> io::Result<()> {
    let next = root.join(DATA_NEXT);
    remove_if_there(&next)?;
    symlink(folder, &next)?;
    fs::rename(next, root.join(DATA))
}

fn link_names(root: &Path, files: &Files) -> io::Result<()> {
    for name in top_level(files) {
        match symlink(Path::new(DATA).join(&name), root.join(&name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes links for names that no longer exist and folders that are no longer published, even those of a writer that
/// died.
fn remove_stale(root: &Path, files: &Files) -> Result<(), VolumeError> {
    let (names, mut stale_folders) = (top_level(files), Vec::new());
    let mut remove_links = || -> io::Result<()> {
        let shown = fs::read_link(root.join(DATA))?;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let text = name.to_string_lossy();
            if kind.is_symlink() && text != DATA && !names.contains(text.as_ref()) {
                fs::remove_file(entry.path())?;
            } else if kind.is_dir() && text.starts_with("..") && Path::new(&name) != shown {
                stale_folders.push(entry.path());
            }
        }
        Ok(())
    };
    remove_links().map_err(VolumeError::io("clean up", root))?;
    stale_folders.iter().try_for_each(|folder| remove_tree(folder))
}

fn top_level(files: &Files) -> BTreeSet<String> {
    let first = |path: &String| match Path::new(path).components().next() {
        Some(Component::Normal(name)) => name.to_string_lossy().into_owned(),
        _ => path.clone(),
    };
    files.keys().map(first).collect()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests;
