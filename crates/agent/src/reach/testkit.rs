//! HTTP servers on loopback, which give the answers they are set up with and record the requests.

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::HTTPGetAction;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use parking_lot::Mutex;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A self-made certificate that nobody signed, for a name that does not exist.
const CERTIFICATE: &[u8] = include_bytes!("testkit/cert.der");
const KEY: &[u8] = include_bytes!("testkit/key.der");

type Answers = dyn Fn(&str) -> String + Send + Sync;

/// Whether a server announces that it closes a connection.
#[derive(Clone, Copy)]
enum Closing {
    Announced,
    Abrupt,
}

fn acceptor(certificate: &'static [u8], versions: &[&'static SupportedProtocolVersion]) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(KEY).into()).unwrap();
    let certified = CertifiedKey::new(vec![certificate.into()], key);
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    TlsAcceptor::from(Arc::new(config))
}

/// A server that runs for as long as this lives.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinSet<()>,
}

impl TestServer {
    /// Starts a server that answers each request with what `answers` returns.
    pub(crate) async fn start(answers: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::serve(None, Closing::Announced, Arc::new(answers)).await
    }

    /// Does the same, over TLS.
    pub(crate) async fn start_tls(answers: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start_with_certificate(CERTIFICATE, rustls::DEFAULT_VERSIONS, answers).await
    }

    /// Does the same, with a certificate that need not be valid, and with these versions of TLS.
    pub(crate) async fn start_with_certificate(
        certificate: &'static [u8],
        versions: &[&'static SupportedProtocolVersion],
        answers: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Some(acceptor(certificate, versions)), Closing::Announced, Arc::new(answers)).await
    }

    /// Starts a TLS server that closes connections without announcing it.
    pub(crate) async fn start_abrupt_tls(
        version: &'static SupportedProtocolVersion,
        answers: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let tls = acceptor(CERTIFICATE, &[version]);
        Self::serve(Some(tls), Closing::Abrupt, Arc::new(answers)).await
    }

    /// Starts a server that sends these words, and then nothing more, without hanging up.
    pub(crate) async fn start_stalling(words: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut held = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(words.as_bytes()).await.unwrap();
                held.push(stream);
            }
        });
        Self { port, asked: Arc::default(), serving }
    }

    /// Starts a server that speaks only HTTP/2, and answers 200 with the authority and path of the request.
    pub(crate) async fn start_http2() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(KEY).into()).unwrap();
        let certified = CertifiedKey::new(vec![CERTIFICATE.into()], key);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(stream) = tls.accept(stream).await else { continue };
                let answer = hyper::service::service_fn(async |asked: hyper::Request<_>| {
                    let _: &hyper::body::Incoming = asked.body();
                    Ok::<_, std::convert::Infallible>(hyper::Response::new(asked.uri().to_string()))
                });
                let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = served.serve_connection(TokioIo::new(stream), answer).await;
            }
        });
        Self { port, asked: Arc::default(), serving }
    }

    async fn serve(tls: Option<TlsAcceptor>, closing: Closing, answers: Arc<Answers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let memory = asked.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                match &tls {
                    None => answer(stream, closing, &*answers, &memory).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            answer(stream, closing, &*answers, &memory).await;
                        }
                    }
                }
            }
        });
        Self { port, asked, serving }
    }

    /// Stops it: nothing listens any more.
    pub(crate) async fn stop(mut self) {
        self.serving.shutdown().await;
    }

    /// Returns all requests it has received.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Returns a request to it.
    pub(crate) fn action(&self, path: &str, scheme: &str) -> HTTPGetAction {
        HTTPGetAction {
            port: IntOrString::Int(self.port.into()),
            path: Some(path.to_owned()),
            scheme: Some(scheme.to_owned()),
            ..HTTPGetAction::default()
        }
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    closing: Closing,
    answers: &Answers,
    memory: &Mutex<Vec<String>>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            // The connection was not meant for this server: the client wanted TLS.
            _ => break,
        }
        // A TLS handshake, which is not text.
        if head == [0x16] {
            break;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let answer = answers(&head);
    memory.lock().push(head);
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = match closing {
        Closing::Announced => stream.shutdown().await,
        Closing::Abrupt => stream.flush().await,
    };
}

/// Returns an answer with a code, a header and a body.
pub(crate) fn reply(code: u16, header: &str, body: &str) -> String {
    format!("HTTP/1.1 {code} Told\r\n{header}content-length: {}\r\n\r\n{body}", body.len())
}
