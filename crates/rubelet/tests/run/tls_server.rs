//! An HTTPS server on loopback, with a self-signed certificate for a name that does not exist.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const CERTIFICATE: &[u8] = include_bytes!("../../../agent/src/reach/testkit/cert.der");
const KEY: &[u8] = include_bytes!("../../../agent/src/reach/testkit/key.der");

/// Serves for as long as the test runs.
pub(crate) struct TlsServer {
    port: u16,
    was_asked: Arc<AtomicBool>,
}

impl TlsServer {
    /// Starts a server that answers 200 to what `has` accepts, and 503 to everything else.
    pub(crate) fn start(has: impl Fn(&str) -> bool + Send + 'static) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key =
            provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(KEY).into()).expect("a key");
        let certified = CertifiedKey::new(vec![CERTIFICATE.into()], key);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let was_asked = Arc::new(AtomicBool::new(false));
        let (config, asked) = (Arc::new(config), was_asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that went away in the middle was not answered; the next one counts.
                if let Ok(true) = answer(stream, &config, &has) {
                    asked.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { port, was_asked }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether any client got an answer.
    pub(crate) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }
}

fn answer(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    has: &impl Fn(&str) -> bool,
) -> std::io::Result<bool> {
    let connection = ServerConnection::new(config.clone()).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut first = String::new();
    stream.read_line(&mut first)?;
    let mut header = String::new();
    while stream.read_line(&mut header)? > 2 {
        header.clear();
    }
    let Some(path) = first.split_whitespace().nth(1) else { return Ok(false) };
    let code = if has(path) { "200 OK" } else { "503 Service Unavailable" };
    let mut stream = stream.into_inner();
    write!(stream, "HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    stream.conn.send_close_notify();
    stream.flush()?;
    Ok(true)
}
