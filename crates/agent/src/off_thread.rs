//! Runs work that blocks on disks or takes long off the async threads, and waits for tasks to end.

use tokio::task::JoinError;

/// Runs `work` where it may block. A panic is passed on to the caller.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}

/// Returns the result of a task or thread. A panic is passed on to the caller.
pub(crate) async fn joined<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The tokio runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
