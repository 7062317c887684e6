//! The end of a recording.

use std::time::Duration;

use pleg::record::{RecordError, Recorder};

/// How long the disk may take for what is still to be written.
const PATIENCE: Duration = Duration::from_secs(10);

/// The end of a recording is missing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotComplete {
    #[error(transparent)]
    Failed(#[from] RecordError),
    #[error("its end could not be written to disk within {}", pleg::GoDuration(PATIENCE))]
    Late,
}

/// Ends a recording. A disk that hangs does not keep the process from ending.
pub(crate) async fn finish(recorder: Recorder) -> Result<(), NotComplete> {
    finish_within(PATIENCE, || recorder.finish()).await
}

async fn finish_within(
    patience: Duration,
    finish: impl FnOnce() -> Result<(), RecordError> + Send + 'static,
) -> Result<(), NotComplete> {
    match tokio::time::timeout(patience, tokio::task::spawn_blocking(finish)).await {
        Ok(Ok(finished)) => Ok(finished?),
        Ok(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        Err(_) => Err(NotComplete::Late),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_disk_that_hangs_is_not_waited_for() {
        let (writes, disk) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = disk.recv();
            Ok(())
        };
        let finished = finish_within(Duration::from_millis(10), hangs).await;
        assert!(matches!(finished, Err(NotComplete::Late)), "{finished:?}");
        drop(writes);
    }
}
