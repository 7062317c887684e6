//! A registry on loopback that serves from memory, counts what it is asked, and fails on demand.
//!
//! It speaks just enough HTTP by hand: the faults of interest are in the bytes (a body cut short, a silence, a lie
//! about a length), and a proper server would not commit them.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rubelet_runtime::image::Digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::TestImage;

/// What goes wrong with one request for a blob.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The connection ends after so many bytes.
    Cut(usize),
    /// Nothing more comes after so many bytes.
    Stall(usize),
    /// One bit is wrong.
    Corrupt,
    /// A range is not understood, and everything is sent.
    IgnoreRange,
    /// This status instead.
    Status(u16),
    /// More bytes than there are.
    Longer,
    /// This status, and a body without an end.
    Flood(u16),
}

/// Who may read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Guard {
    Nobody,
    Basic(&'static str),
    /// A token, which `user:password` buys.
    Token(&'static str),
}

struct Shared {
    address: SocketAddr,
    guard: Guard,
    manifests: Mutex<BTreeMap<String, Vec<u8>>>,
    floods: Mutex<BTreeMap<String, u16>>,
    flooded: AtomicUsize,
    blobs: Mutex<BTreeMap<Digest, Vec<u8>>>,
    faults: Mutex<BTreeMap<Digest, VecDeque<Fault>>>,
    requests: Mutex<Vec<String>>,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// The registry; it ends with this handle.
pub(crate) struct Registry {
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Registry {
    pub(crate) async fn start(guard: Guard) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shared = Arc::new(Shared {
            address: listener.local_addr().unwrap(),
            guard,
            manifests: Mutex::default(),
            floods: Mutex::default(),
            flooded: AtomicUsize::new(0),
            blobs: Mutex::default(),
            faults: Mutex::default(),
            requests: Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                connections.spawn(async move {
                    let _ = shared.serve(stream).await;
                });
            }
        });
        Self { shared, task }
    }

    /// The full name of this image here.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.shared.address)
    }

    /// Offers an image as `repository:tag` and by digest. Gives the manifest's digest.
    pub(crate) fn offer(&self, repository: &str, tag: &str, image: &TestImage) -> Digest {
        let blobs = image.blobs();
        self.shared.blobs.lock().extend(blobs.blobs);
        self.offer_manifest(repository, tag, &blobs.manifest)
    }

    pub(crate) fn offer_manifest(&self, repository: &str, tag: &str, manifest: &[u8]) -> Digest {
        let digest = Digest::of(manifest);
        let mut manifests = self.shared.manifests.lock();
        manifests.insert(format!("{repository}/manifests/{tag}"), manifest.to_vec());
        manifests.insert(format!("{repository}/manifests/{digest}"), manifest.to_vec());
        digest
    }

    /// From now on, this path is answered with this status and a body without an end: `x/manifests/1`, or `token`.
    pub(crate) fn flood(&self, path: &str, code: u16) {
        self.shared.floods.lock().insert(path.to_owned(), code);
    }

    /// How much of such bodies was sent.
    pub(crate) fn flooded(&self) -> usize {
        self.shared.flooded.load(Ordering::SeqCst)
    }

    /// What shall go wrong with the next requests for this blob.
    pub(crate) fn fail(&self, blob: &Digest, faults: &[Fault]) {
        self.shared.faults.lock().insert(blob.clone(), faults.iter().copied().collect());
    }

    /// The requests for this blob: the first byte asked for, of each.
    pub(crate) fn asked(&self, blob: &Digest) -> Vec<usize> {
        let requests = self.shared.requests.lock();
        let mine = requests.iter().filter(|request| request.contains(blob.as_str()));
        mine.map(|request| request.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }

    /// The most blobs that were under way at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.shared.most.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let Some(head) = read_head(&mut stream).await? else { return Ok(()) };
            let mut lines = head.lines();
            let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
            let header = |name: &str| {
                head.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
                })
            };
            let offset = header("range")
                .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
            self.requests.lock().push(format!("{path} {}", offset.unwrap_or(0)));
            self.answer(&mut stream, &path, header("authorization"), offset).await?;
        }
    }

    async fn answer(
        &self,
        stream: &mut TcpStream,
        path: &str,
        authorization: Option<String>,
        offset: Option<usize>,
    ) -> std::io::Result<()> {
        let basic = |credentials: &str| {
            use base64::Engine as _;
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials))
        };
        let rest = path.strip_prefix("/v2/").unwrap_or(path);
        let flood = {
            let floods = self.floods.lock();
            floods
                .iter()
                .find(|(path, _)| rest.trim_start_matches('/').starts_with(*path))
                .map(|(_, code)| *code)
        };
        if let Some(code) = flood {
            return self.send_flood(stream, code).await;
        }
        if path.starts_with("/token") {
            let Guard::Token(credentials) = self.guard else { return status(stream, 404, "", b"").await };
            return if authorization.as_deref() == Some(&basic(credentials)) {
                status(stream, 200, "", br#"{"token":"good"}"#).await
            } else {
                status(stream, 401, "", b"no").await
            };
        }
        let (challenge, wanted) = match self.guard {
            Guard::Nobody => (String::new(), None),
            Guard::Basic(credentials) => {
                ("WWW-Authenticate: Basic realm=\"x\"\r\n".to_owned(), Some(basic(credentials)))
            }
            Guard::Token(_) => (
                format!("WWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"x\"\r\n", self.address),
                Some("Bearer good".to_owned()),
            ),
        };
        if wanted.is_some() && authorization != wanted {
            return status(stream, 401, &challenge, b"{}").await;
        }
        if path == "/v2/" {
            return status(stream, 200, "", b"{}").await;
        }
        let manifest: Option<Vec<u8>> = self.manifests.lock().get(rest).cloned();
        if let Some(manifest) = manifest {
            let digest = format!("Docker-Content-Digest: {}\r\n", Digest::of(&manifest));
            return status(stream, 200, &digest, &manifest).await;
        }
        let digest = rest.rsplit('/').next().and_then(|digest| digest.parse::<Digest>().ok());
        let blob = digest.as_ref().and_then(|digest| self.blobs.lock().get(digest).cloned());
        let (Some(digest), Some(blob)) = (digest, blob) else {
            let unknown = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"unknown"}]}"#;
            return status(stream, 404, "", unknown).await;
        };
        let fault = self.faults.lock().get_mut(&digest).and_then(VecDeque::pop_front);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // Long enough for others to come, if they may.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let result = match fault {
            Some(Fault::Flood(code)) => self.send_flood(stream, code).await,
            fault => send(stream, blob, offset, fault).await,
        };
        self.now.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// Where a body without an end ends, lest a client that reads all of it read for ever.
const FLOOD: usize = 256 << 20;

impl Shared {
    async fn send_flood(&self, stream: &mut TcpStream, code: u16) -> std::io::Result<()> {
        stream.write_all(format!("HTTP/1.1 {code} X\r\nConnection: close\r\n\r\n").as_bytes()).await?;
        let spaces = vec![b' '; 64 << 10];
        let mut sent = 0;
        while sent < FLOOD {
            stream.write_all(&spaces).await?;
            sent += spaces.len();
            self.flooded.fetch_add(spaces.len(), Ordering::SeqCst);
        }
        Err(std::io::ErrorKind::ConnectionAborted.into())
    }
}

async fn send(
    stream: &mut TcpStream,
    mut blob: Vec<u8>,
    offset: Option<usize>,
    fault: Option<Fault>,
) -> std::io::Result<()> {
    let offset = offset.filter(|_| fault != Some(Fault::IgnoreRange));
    match fault {
        Some(Fault::Status(code)) => return status(stream, code, "", b"fault").await,
        Some(Fault::Corrupt) => {
            let middle = blob.len() / 2;
            blob[middle] ^= 1;
        }
        Some(Fault::Longer) => blob.extend_from_slice(&[0; 100]),
        _ => {}
    }
    let body = &blob[offset.unwrap_or(0).min(blob.len())..];
    let code = if offset.is_some() { 206 } else { 200 };
    let head = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    match fault {
        Some(Fault::Cut(len)) => {
            stream.write_all(&body[..len.min(body.len())]).await?;
            stream.shutdown().await?;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        Some(Fault::Stall(len)) => {
            stream.write_all(&body[..len.min(body.len())]).await?;
            stream.flush().await?;
            // Until the client hangs up.
            let _ = stream.read(&mut [0; 1]).await;
            Err(std::io::ErrorKind::ConnectionAborted.into())
        }
        _ => stream.write_all(body).await,
    }
}

async fn status(stream: &mut TcpStream, code: u16, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {code} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}
