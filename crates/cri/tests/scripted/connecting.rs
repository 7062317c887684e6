//! Getting to a runtime: what is wrong with a socket is told in so many words, and no failure is final.

use std::time::Duration;

use crate::support::{Place, Reply, Server};
use rubelet_cri::{Endpoint, ErrorKind, Metrics, Operation, Options, RuntimeClient, v1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::time::Instant;
use tonic::Code;

fn version() -> v1::VersionResponse {
    v1::VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: "scripted".to_owned(),
        runtime_version: "1".to_owned(),
        runtime_api_version: "v1".to_owned(),
    }
}

async fn good(place: &Place) -> Server {
    Server::start(place, |_| Reply::message(&version())).await
}

/// The error of a handshake: its kind, and its message without the place.
async fn handshake(place: &Place) -> (ErrorKind, String) {
    let error = place.client().version().await.expect_err("no runtime there");
    let message = error.to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!((error.operation(), error.endpoint()), (Operation::Version, &place.endpoint));
    (error.kind(), message.replace(place.path().to_str().unwrap(), "SOCKET"))
}

#[tokio::test]
async fn a_missing_socket() {
    let (kind, message) = handshake(&Place::new()).await;
    assert_eq!(kind, ErrorKind::NoSocket);
    assert_eq!(
        message,
        "version: there is no socket at SOCKET; is the runtime running, and is this its endpoint?"
    );
}

#[tokio::test]
async fn a_missing_directory_and_a_file_in_its_place() {
    let place = Place::new();
    std::fs::write(place.path(), "").unwrap();
    for path in [place.path().join("below.sock"), place.path().with_file_name("none").join("x.sock")] {
        let client =
            RuntimeClient::new(Endpoint::from_path(path).unwrap(), Options::default(), Metrics::default());
        assert_eq!(client.version().await.unwrap_err().kind(), ErrorKind::NoSocket);
    }
}

#[tokio::test]
async fn a_plain_file_and_a_directory() {
    let place = Place::new();
    std::fs::write(place.path(), "").unwrap();
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::NotASocket);
    assert_eq!(message, "version: SOCKET is not a socket; give the endpoint of a container runtime");
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    assert_eq!(handshake(&place).await.0, ErrorKind::NotASocket);
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on() {
    let place = Place::new();
    drop(UnixListener::bind(place.path()).unwrap());
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::ConnectionRefused);
    assert_eq!(message, "version: nobody listens on SOCKET; the runtime has stopped: start it again");
}

#[tokio::test]
async fn a_listener_that_accepts_nobody() {
    let place = Place::new();
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(place.path()).unwrap();
    let _listener = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::net::UnixStream::connect(place.path()).await {
        waiting.push(stream);
    }
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.ends_with("it accepts no connections, and too many are waiting"), "{message}");
}

#[tokio::test]
async fn a_socket_that_we_may_not_use() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let _listener = UnixListener::bind(place.path()).unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    if tokio::net::UnixStream::connect(place.path()).await.is_ok() {
        // For root there are no permissions; what the error would be is tested where it is made.
        return;
    }
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::PermissionDenied);
    assert!(message.contains("no permission to use SOCKET; run as root"), "{message}");
}

#[tokio::test]
async fn garbage_on_the_socket() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path()).unwrap();
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.com ESMTP\r\n").await.unwrap();
        // Keep the connection open: it is the words that tell.
        std::future::pending::<()>().await;
    });
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::NotGrpc);
    assert_eq!(
        message,
        "version: what answers on SOCKET does not speak gRPC (it began with \"220 mail.example.com ESMTP\\r\\n\"); \
         give the endpoint of a CRI runtime"
    );
    peer.abort();
}

#[tokio::test]
async fn http_without_grpc() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::Http(404, "text/html")).await;
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::NotGrpc);
    assert!(message.contains("404 Not Found"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing() {
    let place = Place::new();
    let _listener = UnixListener::bind(place.path()).unwrap();
    let start = Instant::now();
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::Silent);
    assert_eq!(
        message,
        "version: the connection to SOCKET was accepted, but nothing was heard for 5s; the runtime may hang: see its log, \
         or restart it"
    );
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_greets_and_never_answers() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::Hang).await;
    let start = Instant::now();
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::Deadline);
    assert_eq!(message, "version: no answer from the runtime at SOCKET in time: none within 10s");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_peer_that_hangs_up() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path()).unwrap();
    let peer = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Wait for the client's own greeting, so that hanging up is not a reset.
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.contains("hung up before it greeted"), "{message}");
    peer.abort();
}

#[tokio::test]
async fn a_runtime_of_the_old_protocol_only() {
    let place = Place::new();
    let _server = Server::start(&place, |call| match call.method.as_str() {
        "runtime.v1alpha2.RuntimeService/Version" => Reply::message(&version()),
        _ => Reply::fail(Code::Unimplemented, "unknown service runtime.v1.RuntimeService"),
    })
    .await;
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::OldApi);
    assert_eq!(
        message,
        "version: the runtime at SOCKET (scripted 1) speaks only CRI v1alpha2, but v1 is needed; upgrade the runtime \
         (containerd has v1 from 1.6 on)"
    );
}

#[tokio::test]
async fn something_that_speaks_grpc_but_not_cri() {
    let place = Place::new();
    let _server = Server::start(&place, |_| Reply::unimplemented()).await;
    let (kind, message) = handshake(&place).await;
    assert_eq!(kind, ErrorKind::NotCri);
    assert_eq!(
        message,
        "version: what answers on SOCKET speaks gRPC but not CRI; if it is containerd, its CRI plugin is disabled: see \
         disabled_plugins in its configuration"
    );
}

#[tokio::test]
async fn another_handshake() {
    let place = Place::new();
    let _server = Server::start(&place, |_| {
        Reply::message(&v1::VersionResponse { version: "0.2.0".to_owned(), ..version() })
    })
    .await;
    assert_eq!(handshake(&place).await.0, ErrorKind::Invalid("version"));
}

#[tokio::test]
async fn a_runtime() {
    let place = Place::new();
    let _server = good(&place).await;
    let client = place.client();
    assert_eq!(client.epoch(), 0, "nothing is connected before the first call");
    assert_eq!(client.version().await.unwrap(), version());
    assert_eq!(client.epoch(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_a_failure_is_fresh_calls_fail_at_once_and_then_they_connect() {
    let place = Place::new();
    let client = place.client();
    assert_eq!(client.version().await.unwrap_err().kind(), ErrorKind::NoSocket);
    let _server = good(&place).await;
    let before = Instant::now();
    assert_eq!(client.version().await.unwrap_err().kind(), ErrorKind::NoSocket, "the failure is remembered");
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::advance(Duration::from_millis(121)).await;
    assert!(client.version().await.is_ok(), "100 ms and at most a fifth more");
    assert_eq!(client.epoch(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_waits_double_up_to_three_seconds_and_there_is_no_last_try() {
    let place = Place::new();
    std::fs::write(place.path(), "").unwrap();
    let client = place.client();
    // Whether a call tried: what is at the path changes each time, and only a new try notices.
    let mut is_file = true;
    let mut tried = async || {
        let kind = client.version().await.unwrap_err().kind();
        let has_tried = kind == if is_file { ErrorKind::NotASocket } else { ErrorKind::NoSocket };
        if has_tried {
            if is_file {
                std::fs::remove_file(place.path()).unwrap();
            } else {
                std::fs::write(place.path(), "").unwrap();
            }
            is_file = !is_file;
        }
        has_tried
    };
    assert!(tried().await);
    for wait in [100, 200, 400, 800, 1600].into_iter().chain([3000; 20]) {
        tokio::time::advance(Duration::from_millis(wait * 8 / 10 - 1)).await;
        assert!(!tried().await, "less than {wait} ms after a failure");
        tokio::time::advance(Duration::from_millis(wait * 4 / 10 + 2)).await;
        assert!(tried().await, "more than {wait} ms after a failure");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restarted_runtime_is_found_again_at_once_under_a_new_number() {
    let place = Place::new();
    let client = place.client();
    for epoch in 1..4 {
        let server = good(&place).await;
        client.version().await.unwrap();
        client.version().await.unwrap();
        assert_eq!(client.epoch(), epoch);
        assert!(server.calls().iter().all(|call| call.connection == 1), "one connection serves all calls");
        server.stop().await;
    }
    assert_eq!(client.version().await.unwrap_err().kind(), ErrorKind::NoSocket);
    assert_eq!(client.epoch(), 3, "only a connection counts");
}

#[tokio::test]
async fn a_call_that_is_cut_off_may_have_been_carried_out() {
    let place = Place::new();
    let server = Server::start(&place, |_| Reply::Hang).await;
    let client = place.client();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.status(false).await }
    });
    while server.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert!(error.is_unavailable() && error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_hangs_up_on_every_call_is_not_called_in_a_hurry() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path()).unwrap();
    let accepted = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&accepted);
    let peer = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // An empty SETTINGS frame: a greeting. Then it hears the client out, and goes.
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
        }
    });
    let client = place.client();
    for _ in 0..50 {
        let error = client.version().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    assert!(accepted.load(std::sync::atomic::Ordering::Relaxed) <= 2, "calls wait for their turn to connect");
    peer.abort();
}

#[tokio::test]
async fn calls_made_together_connect_once() {
    let place = Place::new();
    let server = good(&place).await;
    let client = place.client();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.version().await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(client.epoch(), 1);
    assert!(server.calls().iter().all(|call| call.connection == 1));
}

#[tokio::test]
async fn the_connection_closes_with_the_last_client() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path()).unwrap();
    let client = place.client();
    let images = client.images();
    let call = tokio::spawn(async move { client.version().await });
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    stream.read_exact(&mut [0; 24]).await.unwrap();
    call.abort();
    let _ = call.await;
    drop(images);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the client has hung up");
}
