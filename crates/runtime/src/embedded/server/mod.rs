//! The CRI services: thin shells over the operations.

mod images;
mod runtime;

use std::sync::Arc;

use rubelet_cri::v1::image_service_server::ImageServiceServer;
use rubelet_cri::v1::runtime_service_server::RuntimeServiceServer;
use rubelet_cri::{Endpoint, Listener};

use super::error::{Error, Result};
use super::runtime::{Options, Runtime};

/// The embedded runtime's name in the CRI.
pub const NAME: &str = "rubelet";
/// The size limit of the usual client.
const MAX_MESSAGE: usize = 16 << 20;

/// Runs the embedded runtime until `stop` completes. Containers keep running without it.
///
/// # Errors
///
/// If the data folder or the socket cannot be used.
pub async fn serve(options: Options, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let runtime = Runtime::open(&options)?;
    runtime.recover().await?;
    if let Some(parent) = options.socket.parent() {
        super::store::make_dir(parent)?;
    }
    let endpoint =
        Endpoint::from_path(&options.socket).map_err(|error| Error::invalid("socket", error.to_string()))?;
    let socket = Listener::bind(&endpoint).await.map_err(|error| Error::Internal(error.to_string()))?;
    tracing::info!(socket = %endpoint, "the embedded runtime is listening");
    let service = Service { runtime };
    let runtime_service = RuntimeServiceServer::new(service.clone()).max_decoding_message_size(MAX_MESSAGE);
    let image_service = ImageServiceServer::new(service).max_decoding_message_size(MAX_MESSAGE);
    let server = tonic::transport::Server::builder()
        .add_service(runtime_service.max_encoding_message_size(usize::MAX))
        .add_service(image_service.max_encoding_message_size(usize::MAX))
        .serve_with_incoming(socket);
    // Not a graceful shutdown: an event stream never ends by itself, and every operation survives a broken connection.
    tokio::select! {
        served = server => served.map_err(|error| Error::Internal(error.to_string())),
        () = stop => Ok(()),
    }
}

/// Both services, on top of one runtime.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    runtime: Arc<Runtime>,
}

/// How many items of a streamed list go into one message.
const CHUNK: usize = 1000;

/// Splits a list into messages.
fn chunked<T, M>(items: Vec<T>, message: impl Fn(Vec<T>) -> M) -> Vec<Result<M, tonic::Status>> {
    let mut messages = Vec::new();
    let mut items = items.into_iter();
    loop {
        let chunk: Vec<T> = items.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            return messages;
        }
        messages.push(Ok(message(chunk)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_and_nothing_is_lost() {
        let sizes = |count: usize| -> Vec<usize> {
            chunked((0..count).collect(), |chunk| chunk.len()).into_iter().map(|part| part.unwrap()).collect()
        };
        assert_eq!(sizes(0), Vec::<usize>::new());
        assert_eq!(sizes(CHUNK), [CHUNK]);
        assert_eq!(sizes(CHUNK + 1), [CHUNK, 1]);
    }
}
