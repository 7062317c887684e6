//! Calls that meet a connection which is about to close.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_stream::StreamExt;
use tower::Service;

use super::*;
use crate::Listener;

fn not_sent() -> Failure {
    Status::from_error(Box::new(CallFailure::NotSent)).into()
}

/// A peer that greets whoever connects and reads what they send; it hangs up on request.
async fn peer(mut listener: Listener, mut hang_up: tokio::sync::mpsc::Receiver<()>) {
    while let Some(stream) = listener.next().await {
        let mut stream = stream.unwrap();
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        let mut ignored = [0; 4096];
        loop {
            tokio::select! {
                read = stream.read(&mut ignored) => if read.is_ok_and(|read| read > 0) { continue },
                _ = hang_up.recv() => {}
            }
            break;
        }
    }
}

struct Setting {
    _dir: tempfile::TempDir,
    caller: Caller,
    hang_up: tokio::sync::mpsc::Sender<()>,
    peer: tokio::task::JoinHandle<()>,
}

impl Setting {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::from_path(dir.path().join("s")).unwrap();
        let (hang_up, hangs_up) = tokio::sync::mpsc::channel(1);
        let peer = tokio::spawn(peer(Listener::bind(&endpoint).await.unwrap(), hangs_up));
        let caller = Caller::new(endpoint, Options::default(), Metrics::default());
        Self { _dir: dir, caller, hang_up, peer }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.peer.abort();
    }
}

#[tokio::test]
async fn a_request_that_was_never_sent_is_made_once_more() {
    let setting = Setting::new().await;
    for (failures, is_ok) in [(0, true), (1, true), (2, false)] {
        let tries = AtomicU64::new(0);
        let result = setting
            .caller
            .perform(Operation::Status, Duration::ZERO, |_| {
                let is_lost = tries.fetch_add(1, Ordering::Relaxed) < failures;
                async move { if is_lost { Err(not_sent()) } else { Ok(()) } }
            })
            .await;
        assert_eq!(result.is_ok(), is_ok, "{failures} failures");
        assert_eq!(tries.load(Ordering::Relaxed), (failures + 1).min(2));
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_sent_is_not() {
    let setting = Setting::new().await;
    let tries = AtomicU64::new(0);
    let result: Result<(), Error> = setting
        .caller
        .perform(Operation::Status, Duration::ZERO, |_| {
            tries.fetch_add(1, Ordering::Relaxed);
            async { Err(Status::unavailable("gone").into()) }
        })
        .await;
    assert!(result.is_err());
    assert_eq!(tries.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_closed_connection_knows_that_nothing_was_sent() {
    let setting = Setting::new().await;
    let attempt = setting.caller.attempt(None).await.unwrap();
    assert!(attempt.connection().is_open());
    setting.hang_up.send(()).await.unwrap();
    while attempt.connection().is_open() {
        tokio::task::yield_now().await;
    }
    let mut channel = Channel(Arc::clone(attempt.connection()));
    let failure = channel.call(http::Request::new(tonic::body::Body::empty())).await.unwrap_err();
    assert!(matches!(failure, CallFailure::NotSent), "{failure:?}");
    assert!(was_not_sent(&Status::from_error(Box::new(failure))));
}

#[test]
fn the_ways_to_say_too_large() {
    let too_large = [
        Status::resource_exhausted("grpc: trying to send message larger than max (16777999 vs. 16777216)"),
        Status::resource_exhausted("grpc: received message larger than max (5 vs. 4)"),
        Status::out_of_range("Error, decoded message length too large: found 9 bytes, the limit is: 4 bytes"),
        Status::resource_exhausted(
            "Error, encoded message length too large: found 9 bytes, the limit is: 4 bytes",
        ),
        Status::from_error(Box::new(BadAnswer::TooLarge { length: 2, limit: 1 })),
    ];
    for status in too_large {
        assert_eq!(kind_of(&status), ErrorKind::TooLarge, "{status:?}");
        assert!(is_too_large(&status));
    }
    for status in [Status::resource_exhausted("too many requests"), Status::internal("larger than max")] {
        assert!(!is_too_large(&status), "{status:?}");
    }
}

#[test]
fn answers_that_are_of_no_use() {
    for bad in [BadAnswer::Flags(1), BadAnswer::Truncated] {
        assert_eq!(kind_of(&Status::from_error(Box::new(bad))), ErrorKind::Invalid("message"));
    }
}
