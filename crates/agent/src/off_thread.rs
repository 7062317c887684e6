//! Work that blocks on disks or takes long, off the async threads.

/// Runs `work` where it may block. Its panic is the caller's.
pub(crate) async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
