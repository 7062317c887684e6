//! The worker that makes the two list calls of a relist and discards the answers frame by frame: the least that any
//! client on this transport has to do.

use std::path::Path;

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;

use super::worker::{Work, serve};

/// The same as in `rubelet-cri`.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;

/// An empty gRPC message: no filter.
const EVERYTHING: &[u8] = &[0; 5];

pub(super) async fn work(socket: &Path) -> anyhow::Result<()> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .handshake(TokioIo::new(UnixStream::connect(socket).await?))
        .await?;
    tokio::spawn(connection);
    serve(Bare { sender }).await
}

struct Bare {
    sender: SendRequest<Full<Bytes>>,
}

impl Work for Bare {
    async fn once(&mut self, _number: u64) -> anyhow::Result<()> {
        for method in ["ListPodSandbox", "ListContainers"] {
            let request = http::Request::post(format!("http://localhost/runtime.v1.RuntimeService/{method}"))
                .header("te", "trailers")
                .header("content-type", "application/grpc")
                .body(Full::new(Bytes::from_static(EVERYTHING)))?;
            let mut answer = self.sender.send_request(request).await?;
            let mut bytes = 0;
            while let Some(frame) = answer.frame().await {
                match frame?.into_data() {
                    Ok(piece) => bytes += piece.len(),
                    Err(frame) => {
                        let status = frame.trailers_ref().and_then(|trailers| trailers.get("grpc-status"));
                        ensure!(status.is_some_and(|status| status == "0"), "{method} failed");
                    }
                }
            }
            ensure!(bytes > 0, "{method} answered nothing");
        }
        Ok(())
    }
}
