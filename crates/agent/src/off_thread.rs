//! Work that blocks on disks or takes long, off the async threads; and tasks whose end is waited for.

use tokio::task::JoinError;

/// Runs `work` where it may block. Its panic is the caller's.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}

/// What came of a task, or of a thread. Its panic is the caller's.
pub(crate) async fn joined<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
