//! Tests the source against a small scripted server.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::reach::testkit::TestServer;
use crate::source::inbox::{Inbox, News};

const PATIENCE: Duration = Duration::from_secs(60);
const OFTEN: Duration = Duration::from_millis(5);

/// Answers each request with the next text; the last one is repeated.
struct Server {
    url: String,
    answers: Arc<Mutex<VecDeque<String>>>,
    questions: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(answers: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/pods", listener.local_addr().expect("an address"));
        let answers = Arc::new(Mutex::new(answers.iter().cloned().collect::<VecDeque<_>>()));
        let questions = Arc::new(Mutex::new(Vec::new()));
        let (script, heard) = (Arc::clone(&answers), Arc::clone(&questions));
        let task = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.expect("a client");
                let mut question = Vec::new();
                while !question.ends_with(b"\r\n\r\n") {
                    match socket.read_u8().await {
                        Ok(byte) => question.push(byte),
                        Err(_) => break,
                    }
                }
                heard.lock().push(String::from_utf8_lossy(&question).to_lowercase());
                let answer = {
                    let mut script = script.lock();
                    if script.len() > 1 { script.pop_front() } else { script.front().cloned() }
                };
                // The client may have closed the connection, which is its right.
                let _ = socket.write_all(answer.unwrap_or_default().as_bytes()).await;
                let _ = socket.shutdown().await;
            }
        });
        Self { url, answers, questions, task }
    }

    fn then(&self, answers: &[String]) {
        *self.answers.lock() = answers.iter().cloned().collect();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}", body.len())
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: x}}]}}\n"
    )
}

struct Running {
    inbox: Inbox,
    task: JoinHandle<()>,
}

impl Running {
    fn start(source: HttpSource) -> Self {
        let inbox = Inbox::default();
        let sets = inbox.sender(source.id());
        Self { inbox, task: tokio::spawn(source.poll_period(OFTEN).run(sets)) }
    }

    async fn next_set(&self) -> SourceSet {
        let news = tokio::time::timeout(PATIENCE, self.inbox.next()).await.expect("news").1;
        let News::Set(set) = news else { panic!("{news:?}") };
        set
    }

    /// Waits for news such as `Set [a-node] <problem>`.
    async fn until(&self, expected: &str) {
        let mut last = String::new();
        let reached = tokio::time::timeout(PATIENCE, async {
            loop {
                last = match self.inbox.next().await.1 {
                    News::Set(set) => {
                        let names: Vec<_> =
                            set.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
                        format!("Set {names:?} {}", shown(&set.problems))
                    }
                    News::CannotTell(problems) => format!("CannotTell {}", shown(&problems)),
                };
                if last.trim() == expected {
                    return;
                }
            }
        });
        assert!(reached.await.is_ok(), "expected {expected:?}, have {last:?}");
    }
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.issue.to_string()).collect::<Vec<_>>().join("; ")
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn pods_come_change_and_go_by_an_empty_list() {
    let server = Server::start(&[answer("200 OK", "", &pod("a"))]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    source.until("Set [\"a-node\"]").await;
    server.then(&[answer(
        "200 OK",
        "",
        &format!("apiVersion: v1\nkind: PodList\nitems:\n- {}", pod("b").replace('\n', "\n  ")),
    )]);
    source.until("Set [\"b-node\"]").await;
    server.then(&[answer("200 OK", "", "{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"items\":[]}")]);
    source.until("Set []").await;
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let server = Server::start(&[answer("503 Service Unavailable", "", "")]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    source.until("CannotTell the server answered 503 Service Unavailable").await;
    server.then(&[answer("200 OK", "", &pod("a"))]);
    source.until("Set [\"a-node\"]").await;
    for (bad, problem) in [
        (answer("404 Not Found", "", ""), "the server answered 404 Not Found"),
        (answer("200 OK", "", ""), "contains no document; write a Pod or an empty PodList, or remove it"),
        (answer("200 OK", "", "x: ["), "unclosed bracket '['"),
    ] {
        server.then(&[bad]);
        source.until(&format!("Set [\"a-node\"] {problem}")).await;
        server.then(&[answer("200 OK", "", &pod("a"))]);
        source.until("Set [\"a-node\"]").await;
    }
}

/// Dates do not distinguish every version from all others.
#[tokio::test]
async fn all_of_it_is_asked_for_unless_it_has_a_tag_and_what_is_the_same_is_not_read_again() {
    let date = "Last-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\n";
    let server = Server::start(&[answer("200 OK", date, &pod("a"))]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    let first = source.next_set().await;
    let again = source.next_set().await;
    assert!(first.is_same(&again), "it was not read anew");
    server.then(&[answer("200 OK", date, &pod("b"))]);
    source.until("Set [\"b-node\"]").await;
    for question in &*server.questions.lock() {
        assert!(!question.contains("\r\nif-"), "{question}");
    }
    server.then(&[answer("304 Not Modified", "", "")]);
    source.until("Set [\"b-node\"] the server answered 304 Not Modified").await;

    server.then(&[answer("200 OK", "ETag: \"v1\"\r\n", &pod("c")), answer("304 Not Modified", "", "")]);
    source.until("Set [\"c-node\"]").await;
    server.questions.lock().clear();
    let one = source.next_set().await;
    let other = source.next_set().await;
    assert!(one.is_same(&other) && one.problems.is_empty());
    let asked = server.questions.lock().last().cloned().unwrap_or_default();
    assert!(asked.contains("\r\nif-none-match: \"v1\"\r\n"), "{asked}");
}

/// An answer that is cut off may end anywhere.
#[tokio::test]
async fn an_answer_that_could_not_be_used_is_not_the_last_word() {
    let tag = "ETag: \"v1\"\r\n";
    let server = Server::start(&[answer("200 OK", tag, &pod("a")[..60])]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    source.until("CannotTell unclosed bracket '{'").await;
    server.then(&[answer("200 OK", tag, &pod("a"))]);
    source.until("Set [\"a-node\"]").await;
}

/// The server would close it sooner or later, possibly at the very moment of a request.
#[tokio::test]
async fn a_connection_is_not_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/pods", listener.local_addr().expect("an address"));
    let _source = Running::start(HttpSource::new(&url, "node").expect("a source"));
    let mut open = Vec::new();
    for _ in 0..3 {
        let next = tokio::time::timeout(PATIENCE, listener.accept()).await;
        let (mut socket, _) = next.expect("another connection").expect("a client");
        let text = pod("a");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        socket.write_all(format!("{head}{text}").as_bytes()).await.expect("answered");
        open.push(socket);
    }
}

#[test]
fn proxies_are_for_other_machines() {
    for (url, expected) in [
        ("http://localhost:1/pods", true),
        ("http://127.9.8.7/pods", true),
        ("https://[::1]:1/pods", true),
        ("http://localhost.example/pods", false),
        ("http://10.0.0.1/pods", false),
        ("http://[fe80::1]/pods", false),
    ] {
        assert_eq!(is_loopback(&Url::parse(url).expect(url)), expected, "{url}");
    }
}

#[tokio::test]
async fn headers_come_from_a_file_and_stay_on_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("headers");
    std::fs::write(&path, "# credentials\n\nX-Token: secret:1\n").expect("written");
    let given = |source: HttpSource| {
        source.header("X-Given", "one").and_then(|source| source.header("X-Given", "two"))
    };
    let other = Server::start(&[answer("200 OK", "", &pod("stolen"))]).await;
    let away = answer("302 Found", &format!("Location: {}\r\n", other.url), "");
    let server = Server::start(&[
        answer("302 Found", "Location: /elsewhere\r\n", ""),
        answer("200 OK", "", &pod("a")),
        away,
    ])
    .await;
    let source = HttpSource::new(&server.url, "node").and_then(given).expect("a source");
    let bad = source.clone().header("X-Given", "a\nsecret").expect_err("no header").to_string();
    assert_eq!(bad, "\"X-Given\" is not a valid HTTP header, or its value is not valid");
    let source = Running::start(source.header_file(&path));
    source.until("Set [\"a-node\"]").await;
    let named = other.url.trim_end_matches("/pods");
    source
        .until(&format!(
            "Set [\"a-node\"] the server answered 302 Found: redirects to another server, {named}, are not followed; \
             give its URL instead"
        ))
        .await;
    let questions = server.questions.lock().clone();
    for header in ["x-token: secret:1\r\n", "x-given: one\r\n", "x-given: two\r\n"] {
        assert!(questions[0].contains(header), "{}", questions[0]);
    }
    assert!(
        questions[1].starts_with("get /elsewhere") && questions[1].contains("x-token"),
        "{}",
        questions[1]
    );
    assert_eq!(other.questions.lock().len(), 0, "nobody else was asked");

    std::fs::write(&path, "nonsense-with-a-secret\n").expect("written");
    source
        .until("Set [\"a-node\"] cannot be read: the header file: line 1 is not of the form `Name: value`")
        .await;
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", " ".repeat(LARGEST_MANIFEST + 1));
    let server = Server::start(&[endless]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    source.until("CannotTell is larger than 10 MiB, the limit for a manifest").await;
}

#[tokio::test]
async fn redirects_end_somewhere() {
    let server = Server::start(&[answer("302 Found", "Location: /round\r\n", "")]).await;
    let source = Running::start(HttpSource::new(&server.url, "node").expect("a source"));
    source.until("CannotTell the server answered 302 Found: stopped after 10 redirects").await;
    server.then(&[answer("301 Moved Permanently", "", "")]);
    source.until("CannotTell the server answered 301 Moved Permanently").await;
}

/// Each piece arrives in time, but the whole answer never would.
#[tokio::test]
async fn an_answer_that_drips_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/pods", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        let mut dripping = tokio::task::JoinSet::new();
        loop {
            let (mut socket, _) = listener.accept().await.expect("a client");
            dripping.spawn(async move {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
                let mut rest = socket.write_all(head).await;
                while rest.is_ok() {
                    tokio::time::sleep(OFTEN).await;
                    rest = socket.write_all(b" ").await;
                }
            });
        }
    });
    let source = HttpSource { patience: 20 * OFTEN, ..HttpSource::new(&url, "node").expect("a source") };
    Running::start(source).until("CannotTell cannot be read: no answer within 0.1 s").await;
    server.abort();
}

/// A certificate for loopback, from an authority that no system trusts.
const CERTIFICATE: &[u8] = include_bytes!("testkit/cert.der");
const AUTHORITY: &[u8] = include_bytes!("testkit/ca.der");

#[tokio::test]
async fn a_server_needs_somebody_who_vouches_for_it() {
    let pods = |_: &str| answer("200 OK", "", &pod("a"));
    let start = || TestServer::start_with_certificate(CERTIFICATE, rustls::DEFAULT_VERSIONS, pods);
    let source = |server: &TestServer| {
        HttpSource::new(&format!("https://127.0.0.1:{}/pods", server.port), "node").expect("a source")
    };
    let (known, unknown) = (start().await, start().await);
    let authority = reqwest::Certificate::from_der(AUTHORITY).expect("a certificate");
    let url = Url::parse("https://127.0.0.1/").expect("a URL");
    let knowing = client(&url).tls_certs_only([authority]).build().expect("a client");
    Running::start(HttpSource { client: knowing, ..source(&known) }).until("Set [\"a-node\"]").await;
    Running::start(source(&unknown))
        .until("CannotTell cannot be read: invalid peer certificate: UnknownIssuer")
        .await;
    assert!(unknown.asked().is_empty(), "it was told nothing");
}

#[tokio::test]
async fn pods_start_while_the_server_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&[answer("200 OK", "", &pod("a"))]).await;
    let source = || HttpSource::new(&server.url, "node").expect("a source").keep_last_good(folder.path());
    Running::start(source()).until("Set [\"a-node\"]").await;
    server.then(&[answer("502 Bad Gateway", "", "")]);
    Running::start(source()).until("Set [\"a-node\"] the server answered 502 Bad Gateway").await;
}

#[test]
fn credentials_in_the_url_are_not_shown() {
    let source = HttpSource::new("https://me:secret@example.com/pods?x=1", "node").expect("a source");
    assert_eq!(&*source.id().place, "https://example.com/pods?x=1");
}

#[test]
fn urls_that_can_never_work_are_refused() {
    for (url, expected) in [
        ("nonsense", "\"nonsense\" is not a URL: relative URL without a base"),
        ("ftp://x/y", "ftp://x/y: a manifest URL must begin with http:// or https://"),
    ] {
        assert_eq!(HttpSource::new(url, "node").expect_err(url).to_string(), expected);
    }
}

/// Pods that a hanging server had must not wait until the request times out.
#[tokio::test]
async fn what_is_known_is_told_before_a_server_that_hangs_has_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/pods", listener.local_addr().expect("an address"));
    let mut source = HttpSource::new(&url, "node").expect("a source").keep_last_good(folder.path());
    source.patience = PATIENCE * 2;
    LastGood::new(folder.path(), &source.place()).keep(&source.place(), pod("a").as_bytes());
    let running = Running::start(source);
    running.until(r#"Set ["a-node"]"#).await;
}
