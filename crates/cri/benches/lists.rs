//! What a full list costs on our side: time, CPU and memory, over a real socket, from a server in another process
//! that does nothing but send bytes it has prepared. For comparison: the same call with the bytes thrown away (no list
//! can be faster), and through the generated client (maps for the labels and annotations of every entry).
//!
//! `cargo bench -p rubelet-cri --bench lists [-- <containers>...]`

use std::convert::Infallible;
use std::process::{Child, Command};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message as _;
use rubelet_cri::{Endpoint, ListFilter, Listener, Metrics, Options, RuntimeClient, assemble, v1};
use tokio::time::Instant;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status};

const ROUNDS: usize = 30;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench").peekable();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match args.peek().map(String::as_str) {
        Some("serve") => {
            let endpoint: Endpoint = args.nth(1).unwrap().parse().unwrap();
            let count = args.next().unwrap().parse().unwrap();
            runtime.block_on(serve(endpoint, count));
        }
        Some("measure") => {
            let endpoint: Endpoint = args.nth(1).unwrap().parse().unwrap();
            let way = args.next().unwrap();
            runtime.block_on(measure(endpoint, &way));
        }
        _ => {
            let counts: Vec<String> = args.collect();
            let counts = if counts.is_empty() { vec!["1000".to_owned(), "10000".to_owned()] } else { counts };
            counts.iter().for_each(|count| compare(count));
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compare(count: &str) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let this = std::env::current_exe().unwrap();
    let spawn = |args: &[&str]| Command::new(&this).args(args).spawn().unwrap();
    let path = socket.to_str().unwrap();
    let _server = Server(spawn(&["serve", path, count]));
    while !socket.exists() {
        std::thread::yield_now();
    }
    println!("{count} containers in as many sandboxes");
    for way in ["bytes", "lean", "full"] {
        assert!(spawn(&["measure", path, way]).wait().unwrap().success());
    }
}

/// Both lists, one after the other, many times; the median, and what the process used.
async fn measure(endpoint: Endpoint, way: &str) {
    let client = RuntimeClient::new(endpoint.clone(), Options::default(), Metrics::default());
    while client.version().await.is_err_and(|error| error.is_unavailable()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let base = memory();
    let mut kept = None;
    let mut lists = Vec::new();
    let mut assemblies = Vec::new();
    let cpu = cpu();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        match way {
            "lean" => {
                let sandboxes = client.list_sandboxes(&ListFilter::All).await.unwrap();
                let containers = client.list_containers(&ListFilter::All).await.unwrap();
                lists.push(start.elapsed());
                let start = Instant::now();
                let pods = assemble(&sandboxes, &containers);
                assemblies.push(start.elapsed());
                // As a PLEG does, keep the last listing while the next one is made.
                kept = Some(pods);
            }
            "full" => {
                let sandboxes = client.describe_sandboxes(None).await.unwrap();
                let containers = client.describe_containers(None).await.unwrap();
                lists.push(start.elapsed());
                drop((sandboxes, containers));
            }
            _ => {
                bare(&endpoint).await;
                lists.push(start.elapsed());
            }
        }
    }
    let cpu = (self::cpu() - cpu) / ROUNDS as f64;
    let (_, peak) = memory();
    println!(
        "  {way:>5}: lists {:6.2} ms, assemble {:5.2} ms, cpu {:6.2} ms, RSS {:5.1} MiB before, {peak:5.1} MiB at most{}",
        median(lists),
        median(assemblies),
        cpu * 1e3,
        base.0,
        kept.map_or_else(String::new, |kept| format!(", {} pods", kept.pods.len())),
    );
}

fn median(mut durations: Vec<Duration>) -> f64 {
    durations.sort();
    durations.get(durations.len() / 2).map_or(0.0, |middle| middle.as_secs_f64() * 1e3)
}

/// The same two calls, with answers that are not even looked at.
async fn bare(endpoint: &Endpoint) {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    thread_local! {
        static CONNECTION: std::cell::RefCell<Option<hyper::client::conn::http2::SendRequest<tonic::body::Body>>> = const { std::cell::RefCell::new(None) };
    }
    let known = CONNECTION.with_borrow(Clone::clone);
    let sender = match known {
        Some(sender) => sender,
        None => {
            let stream = tokio::net::UnixStream::connect(endpoint.path()).await.unwrap();
            let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                .handshake(TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            CONNECTION.with_borrow_mut(|slot| *slot = Some(sender.clone()));
            sender
        }
    };
    for method in ["ListPodSandbox", "ListContainers"] {
        let request = http::Request::post(format!("http://localhost/runtime.v1.RuntimeService/{method}"))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::new(http_body_util::Full::new(Bytes::from_static(&[0; 5]))))
            .unwrap();
        let mut body = sender.clone().send_request(request).await.unwrap().into_body();
        while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
            frame.unwrap();
        }
    }
}

/// Resident memory now and at most, in MiB.
fn memory() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// CPU time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    let own: f64 = stat.split_whitespace().next().unwrap().parse().unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let all: f64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split_whitespace().next()?.parse::<f64>().ok())
        .sum();
    all.max(own) / 1e9
}

// The server.

async fn serve(endpoint: Endpoint, count: usize) {
    let socket = Listener::bind(&endpoint).await.unwrap();
    let answers = Answers { sandboxes: sandboxes(count), containers: containers(count) };
    tonic::transport::Server::builder().add_service(answers).serve_with_incoming(socket).await.unwrap();
}

fn labels(n: usize) -> std::collections::HashMap<String, String> {
    [
        ("io.kubernetes.pod.uid", format!("0a1b2c3d-{n:04x}-4e5f-8a9b-{n:012x}")),
        ("io.kubernetes.pod.name", format!("deployment-7d9f8b6c5-{n:05}")),
        ("io.kubernetes.pod.namespace", format!("namespace-{}", n % 20)),
        ("io.kubernetes.container.name", "application".to_owned()),
        ("app.kubernetes.io/instance", format!("instance-{}", n % 100)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn annotations(n: usize) -> std::collections::HashMap<String, String> {
    [
        ("io.kubernetes.container.hash", format!("{n:08x}")),
        ("io.kubernetes.container.restartCount", "0".to_owned()),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".to_owned()),
        ("io.kubernetes.container.terminationMessagePolicy", "File".to_owned()),
        ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn id(kind: &str, n: usize) -> String {
    format!("{kind}{n:0>62x}")
}

fn sandboxes(count: usize) -> Bytes {
    let items = (0..count).map(|n| v1::PodSandbox {
        id: id("5a", n),
        metadata: Some(v1::PodSandboxMetadata {
            name: format!("deployment-7d9f8b6c5-{n:05}"),
            uid: format!("0a1b2c3d-{n:04x}-4e5f-8a9b-{n:012x}"),
            namespace: format!("namespace-{}", n % 20),
            attempt: 0,
        }),
        created_at: 1_700_000_000_000_000_000 + n as i64,
        labels: labels(n),
        annotations: annotations(n),
        ..Default::default()
    });
    v1::ListPodSandboxResponse { items: items.collect() }.encode_to_vec().into()
}

fn containers(count: usize) -> Bytes {
    let containers = (0..count).map(|n| v1::Container {
        id: id("c0", n),
        pod_sandbox_id: id("5a", n),
        metadata: Some(v1::ContainerMetadata { name: "application".to_owned(), attempt: 0 }),
        image: Some(v1::ImageSpec { image: format!("sha256:{n:0>64x}"), ..Default::default() }),
        image_ref: format!("sha256:{n:0>64x}"),
        image_id: format!("sha256:{n:0>64x}"),
        state: v1::ContainerState::ContainerRunning.into(),
        created_at: 1_700_000_000_000_000_000 + n as i64,
        labels: labels(n),
        annotations: annotations(n),
    });
    v1::ListContainersResponse { containers: containers.collect() }.encode_to_vec().into()
}

/// A runtime service that knows the answers by heart.
#[derive(Clone)]
struct Answers {
    sandboxes: Bytes,
    containers: Bytes,
}

impl tonic::server::NamedService for Answers {
    const NAME: &'static str = "runtime.v1.RuntimeService";
}

impl tower::Service<http::Request<tonic::body::Body>> for Answers {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let answer = match request.uri().path().rsplit('/').next() {
            Some("ListPodSandbox") => Ok(self.sandboxes.clone()),
            Some("ListContainers") => Ok(self.containers.clone()),
            Some("Version") => {
                let version = v1::VersionResponse { version: "0.1.0".to_owned(), ..Default::default() };
                Ok(version.encode_to_vec().into())
            }
            _ => Err(Status::unimplemented("no such method")),
        };
        Box::pin(async move {
            let handler = Handler(answer);
            Ok(tonic::server::Grpc::new(Plain).unary(handler, request).await)
        })
    }
}

struct Handler(Result<Bytes, Status>);

impl tonic::server::UnaryService<Bytes> for Handler {
    type Response = Bytes;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        std::future::ready(self.0.clone().map(Response::new))
    }
}

/// Bytes in, bytes out.
#[derive(Clone, Copy)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}
