//! A connection to a container, for a single request.

mod closing;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONNECTION, HOST};
use hyper::http::uri::{Authority, Parts, Scheme};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::Address;
use closing::EndsUnannounced;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("dial tcp {address}: {}", refusal(source))]
    Dial { address: String, source: io::Error },
    #[error("server gave HTTP response to HTTPS client")]
    PlainAnswer,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("{}", if .0.is_incomplete_message() { "EOF".to_owned() } else { .0.to_string() })]
    Http(#[from] hyper::Error),
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Late,
    #[error("context deadline exceeded (Client.Timeout or context cancellation while reading body)")]
    LateBody,
}

/// Words the error as Go does, which people know from events: `connect: connection refused`.
fn refusal(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.split_once(" (os error")) {
        (Some(_), Some((words, _))) => format!("connect: {}", words.to_lowercase()),
        _ => text,
    }
}

/// How many names are looked up at the same time.
const LOOKUPS: usize = 16;

/// Opens connections. Clones share the limit on lookups.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    lookups: Arc<Semaphore>,
}

impl Default for Dialer {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Dialer {
    /// Opens a connection.
    pub(crate) async fn dial(&self, address: &Address) -> Result<TcpStream, ConnectionError> {
        let connect = async { TcpStream::connect(&self.addresses(address).await?[..]).await };
        connect.await.map_err(|source| ConnectionError::Dial { address: address.to_string(), source })
    }

    /// Looks up an address. A lookup occupies a thread until the name server answers, even if the probe has given up by
    /// then. Threads are shared with everything that uses the disk, so a lookup keeps its permit for as long as it
    /// occupies its thread.
    async fn addresses(&self, Address { host, port }: &Address) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, *port)]);
        }
        let place = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (host, port) = (host.clone(), *port);
        let lookup = tokio::spawn(async move {
            let _place = place;
            lookup_host((host, port)).await.map(Iterator::collect)
        });
        lookup.await.map_err(io::Error::other)?
    }
}

/// An answer with its connection: the body can be read as long as this lives.
pub(super) struct Carried {
    pub(super) answer: Response<Incoming>,
    _carrier: JoinSet<()>,
}

/// Sends a request to a container, over a new connection.
pub(super) async fn ask(
    dialer: &Dialer,
    tls: Option<&Arc<ClientConfig>>,
    address: &Address,
    question: Request<Empty<Bytes>>,
) -> Result<Carried, ConnectionError> {
    let stream = dialer.dial(address).await?;
    let Some(tls) = tls else { return over(stream, question).await };
    let name = ServerName::try_from(address.host.clone())
        .map_err(|error| ConnectionError::Tls(io::Error::other(error)))?;
    let connected = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(refused)?;
    match connected.get_ref().1.alpn_protocol() == Some(HTTP_2) {
        true => over_http2(connected, question).await,
        false => over(EndsUnannounced(connected), question).await,
    }
}

/// The ALPN protocols offered to TLS servers, best first, as Go does.
const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

async fn over_http2<S>(stream: S, question: Request<Empty<Bytes>>) -> Result<Carried, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await?;
    let mut carrier = JoinSet::new();
    carrier.spawn(async move {
        // The answer carries the same error.
        let _ = connection.await;
    });
    Ok(Carried { answer: sender.send_request(for_http2(question)).await?, _carrier: carrier })
}

/// Converts the request to HTTP/2: the authority is part of the URI, and connection headers are not allowed.
fn for_http2(mut question: Request<Empty<Bytes>>) -> Request<Empty<Bytes>> {
    question.headers_mut().remove(CONNECTION);
    let host = question.headers_mut().remove(HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = authority;
    parts.path_and_query = question.uri().path_and_query().cloned();
    if let Ok(uri) = Uri::from_parts(parts) {
        *question.uri_mut() = uri;
    }
    question
}

async fn over<S>(stream: S, question: Request<Empty<Bytes>>) -> Result<Carried, ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::Builder::new().title_case_headers(true).handshake(TokioIo::new(stream)).await?;
    let mut carrier = JoinSet::new();
    carrier.spawn(async move {
        // The answer carries the same error.
        let _ = connection.await;
    });
    Ok(Carried { answer: sender.send_request(question).await?, _carrier: carrier })
}

fn refused(error: io::Error) -> ConnectionError {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            ConnectionError::PlainAnswer
        }
        _ => ConnectionError::Tls(error),
    }
}

/// Returns the TLS configuration for containers, which accepts any server.
pub(super) fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.alpn_protocols = [HTTP_2, HTTP_1].map(<[u8]>::to_vec).into();
    Ok(Arc::new(config))
}

/// Accepts any certificate. A container is asked about itself, at its own address, so there is nobody to deceive.
/// Certificates are not even parsed: some in use would be rejected by any current library.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Returns every scheme that a server can sign with.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn only_names_wait_for_a_lookup() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let busy = Dialer { lookups: Arc::new(Semaphore::new(0)) };
        let address = |host: &str| Address { host: host.to_owned(), port };
        assert!(busy.dial(&address("127.0.0.1")).await.is_ok());
        let waits = tokio::time::timeout(Duration::from_millis(50), busy.dial(&address("localhost"))).await;
        assert!(waits.is_err());
        assert!(Dialer::default().dial(&address("localhost")).await.is_ok());
    }

    #[tokio::test]
    async fn a_lookup_keeps_its_place_though_nobody_waits_any_more() {
        let dialer = Dialer { lookups: Arc::new(Semaphore::new(1)) };
        let address = Address { host: "localhost".to_owned(), port: 1 };
        // Polled once, so that the lookup has begun.
        let asked = Box::pin(dialer.addresses(&address));
        assert!(futures_util::FutureExt::now_or_never(asked).is_none());
        assert_eq!(dialer.lookups.available_permits(), 0, "it is under way");
        // The permit is returned when the answer has come.
        drop(dialer.lookups.acquire().await.unwrap());
    }
}
