//! The download of one blob onto the disk, resumed where an earlier attempt stopped, whichever pull made it.
//!
//! A blob stays in `downloads/<digest>.part` until an image with it is complete. The file is locked while it is being
//! written, so that two pulls of the same layer do not do the work twice. When a pull fails, the file stays for the
//! next one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt as _;

use super::registry::Registry;
use super::{PullOptions, PullReason};
use crate::image::digest::Digest;
use crate::image::files;
use crate::image::progress::{Event, Progress};
use crate::image::store::{ImageStore, StoreError, entries};

/// The number of attempts without a single new byte.
const ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// How many bytes arrive between two events.
const STEP: u64 = 256 * 1024;
/// How long unfinished downloads are kept: a day.
const KEEP_SECONDS: i64 = 24 * 60 * 60;

/// A blob on disk, complete or partial, and locked.
#[derive(Debug)]
pub(super) struct Download {
    pub(super) file: File,
    path: PathBuf,
}

/// What to fetch.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

impl Download {
    /// Deletes the blob because its content is wrong.
    pub(super) fn discard(self) -> io::Result<()> {
        self.file.set_len(0)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits until nobody else is fetching this blob.
pub(super) async fn claim(store: &ImageStore, wanted: &Wanted) -> Result<Download, PullReason> {
    let path = store.paths().downloads.join(format!("{}.part", wanted.digest.hex()));
    Ok(Download { file: lock(&path).await?, path })
}

/// Fetches the missing part of a blob.
pub(super) async fn fetch(
    mut download: Download,
    registry: &Registry,
    wanted: &Wanted,
    options: &PullOptions,
    progress: &Progress,
) -> Result<Download, PullReason> {
    let mut pause = options.retry_pause;
    let mut failures = 0;
    loop {
        let before = length(&download)?;
        let result = advance(registry, &mut download, wanted, options, progress).await;
        let after = length(&download)?;
        match result {
            Ok(()) => return Ok(download),
            Err(reason) if !reason.is_transient() => return Err(reason),
            Err(reason) => {
                if after > before {
                    (failures, pause) = (0, options.retry_pause);
                }
                failures += 1;
                if failures >= ATTEMPTS {
                    return Err(reason);
                }
                progress.tell(Event::Retrying { layer: wanted.digest.clone(), reason: reason.to_string() });
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
    }
}

/// Makes one attempt.
async fn advance(
    registry: &Registry,
    download: &mut Download,
    wanted: &Wanted,
    options: &PullOptions,
    progress: &Progress,
) -> Result<(), PullReason> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| PullReason::from(StoreError::Io { doing: "cannot write", path, source })
    };
    let mut done = length(download)?;
    if done > wanted.size {
        download.file.set_len(0).map_err(io(&download.path))?;
        done = 0;
    }
    let tell = |done| {
        progress.tell(Event::Downloading { layer: wanted.digest.clone(), done, total: wanted.size });
    };
    tell(done);
    if done == wanted.size {
        return Ok(());
    }
    check_space(download, wanted.size - done, options)?;
    let stalled = || PullReason::Stalled(options.stall_timeout);
    let mut stream = tokio::time::timeout(options.stall_timeout, registry.blob(&wanted.digest, done))
        .await
        .map_err(|_| stalled())??;
    if !stream.resumed && done > 0 {
        download.file.set_len(0).map_err(io(&download.path))?;
        done = 0;
    }
    let mut told = done;
    loop {
        let next = tokio::time::timeout(options.stall_timeout, stream.chunks.try_next()).await;
        let Some(chunk) = next.map_err(|_| stalled())?.map_err(PullReason::Interrupted)? else { break };
        done += chunk.len() as u64;
        if done > wanted.size {
            download.file.set_len(0).map_err(io(&download.path))?;
            return Err(PullReason::TooLarge { digest: wanted.digest.clone(), limit: wanted.size });
        }
        // A write into the page cache takes so little time that it can be done here.
        download.file.write_all(&chunk).map_err(io(&download.path))?;
        if done - told >= STEP {
            told = done;
            tell(done);
        }
    }
    if done < wanted.size {
        return Err(PullReason::Interrupted(io::ErrorKind::UnexpectedEof.into()));
    }
    tell(done);
    Ok(())
}

fn check_space(download: &Download, missing: u64, options: &PullOptions) -> Result<(), PullReason> {
    let free = files::free_bytes(&download.file).map_err(StoreError::io("cannot stat", &download.path))?;
    if free < missing.saturating_add(options.limits.min_free_bytes) {
        return Err(PullReason::NoSpace { missing, free });
    }
    Ok(())
}

fn length(download: &Download) -> Result<u64, PullReason> {
    let meta = download.file.metadata().map_err(StoreError::io("cannot stat", &download.path))?;
    Ok(meta.len())
}

/// Waits until nobody else writes to this file, which is created if missing.
async fn lock(path: &Path) -> Result<File, PullReason> {
    let error =
        |source| PullReason::from(StoreError::Io { doing: "cannot lock", path: path.to_owned(), source });
    loop {
        let file = File::options().read(true).append(true).create(true).open(path).map_err(error)?;
        let Some(file) = files::try_lock(file).map_err(error)? else {
            tokio::time::sleep(LOCK_PAUSE).await;
            continue;
        };
        // The previous holder may have removed it; then this is a file without a name.
        if is_current(&file, path) {
            return Ok(file);
        }
    }
}

fn is_current(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Removes these blobs, which have been unpacked into the store, unless somebody else is using them.
pub(super) fn remove(blobs: &[PathBuf]) {
    for path in blobs {
        let Ok(Some(_lock)) = File::open(path).and_then(files::try_lock) else { continue };
        let _ = fs::remove_file(path);
    }
}

/// Removes downloads that have not changed for a day.
pub(crate) fn sweep(store: &ImageStore) -> Result<(), StoreError> {
    let dir = &store.paths().downloads;
    // The time comes from the filesystem's own clock, since that one stamped the files.
    let clock = dir.join(".clock");
    let now = File::create(&clock)
        .and_then(|file| {
            file.set_len(1)?;
            file.metadata()
        })
        .map_err(StoreError::io("cannot write", &clock))?
        .mtime();
    for path in entries(dir)? {
        let old = fs::metadata(&path).is_ok_and(|meta| now - meta.mtime() > KEEP_SECONDS);
        if old {
            remove(&[path]);
        }
    }
    Ok(())
}
