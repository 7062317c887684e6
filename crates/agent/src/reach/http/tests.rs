use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::HTTPHeader;

use super::*;
use crate::reach::testkit::{TestServer, reply};

async fn ask(action: &HTTPGetAction) -> Result<HttpAnswer, String> {
    let ips = [Ipv4Addr::LOCALHOST.into()];
    let asked = PodHttp::default().get(None, "probe", action, &Container::default(), &ips).await;
    asked.map_err(|error| error.to_string())
}

fn with_headers(action: HTTPGetAction, headers: &[(&str, &str)]) -> HTTPGetAction {
    let header =
        |(name, value): &(&str, &str)| HTTPHeader { name: (*name).to_owned(), value: (*value).to_owned() };
    HTTPGetAction { http_headers: Some(headers.iter().map(header).collect()), ..action }
}

#[tokio::test]
async fn a_question_is_put_as_the_kubelet_puts_it() {
    let server = TestServer::start(|_| reply(200, "", "fine")).await;
    let plain = server.action("/healthz?full=1", "HTTP");
    assert_eq!(ask(&plain).await, Ok(HttpAnswer { code: 200, body: "fine".to_owned() }));
    let asked = server.asked().remove(0);
    let lines: Vec<&str> = asked.trim_end().split("\r\n").collect();
    let host = format!("Host: 127.0.0.1:{}", server.port);
    assert_eq!(
        (lines[0], lines.len()),
        ("GET /healthz?full=1 HTTP/1.1", 5),
        "no header that nobody asked for: {lines:?}"
    );
    for wanted in ["User-Agent: kube-probe/1.36", "Accept: */*", "Connection: close", &host] {
        assert!(lines.contains(&wanted), "{wanted}: {lines:?}");
    }
}

#[tokio::test]
async fn headers_of_the_manifest_come_first() {
    let server = TestServer::start(|_| reply(200, "", "")).await;
    let headers = [("Host", "me.example"), ("Accept", ""), ("User-Agent", "mine"), ("X", "1"), ("X", "2")];
    ask(&with_headers(server.action("/", "HTTP"), &headers)).await.unwrap();
    let asked = server.asked().remove(0);
    for wanted in ["Host: me.example\r\n", "User-Agent: mine\r\n", "X: 1\r\n", "X: 2\r\n"] {
        assert!(asked.contains(wanted), "{wanted}: {asked}");
    }
    assert!(!asked.contains("Accept"), "an empty Accept is none: {asked}");
    let refused = ask(&with_headers(server.action("/", "HTTP"), &[("X", "a\nb")])).await.unwrap_err();
    assert!(refused.ends_with(": net/http: invalid header field value for \"X\""), "{refused}");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let here = TestServer::start(|asked| match asked {
        asked if asked.starts_with("GET /near") => reply(302, "location: /end\r\n", ""),
        asked if asked.starts_with("GET /far") => {
            reply(301, "location: http://elsewhere.invalid/\r\n", "go away")
        }
        asked if asked.starts_with("GET /nowhere") => reply(307, "", "no location"),
        asked if asked.starts_with("GET /left") => {
            let left: u32 = asked[9..].split(' ').next().unwrap().parse().unwrap();
            let next = if left == 1 { "end".to_owned() } else { format!("left{}", left - 1) };
            reply(302, &format!("location: /{next}\r\n"), "")
        }
        asked if asked.starts_with("GET /round") => reply(308, "location: round\r\n", ""),
        _ => reply(204, "", ""),
    })
    .await;
    let code = async |path: &str| ask(&here.action(path, "HTTP")).await.map(|answer| answer.code);
    assert_eq!(code("/near").await, Ok(204));
    assert_eq!(code("/far").await, Ok(301), "others are not asked");
    assert_eq!(code("/nowhere").await, Ok(307));
    let before = here.asked().len();
    assert!(code("/round").await.unwrap_err().ends_with("stopped after 10 redirects"));
    assert_eq!(here.asked().len() - before, 10, "the question and nine redirects");
    assert_eq!(code("/left9").await, Ok(204));
    assert!(code("/left10").await.is_err(), "as Go counts");
}

#[tokio::test]
async fn a_host_header_goes_along_on_the_same_server_only() {
    let other = TestServer::start(|_| reply(200, "", "")).await;
    let port = other.port;
    let here = TestServer::start(move |asked| match asked {
        asked if asked.starts_with("GET /a") => reply(302, "location: /b\r\n", ""),
        _ => reply(302, &format!("location: http://127.0.0.1:{port}/\r\n"), ""),
    })
    .await;
    ask(&with_headers(here.action("/a", "HTTP"), &[("Host", "me.example")])).await.unwrap();
    assert!(here.asked().iter().all(|asked| asked.contains("Host: me.example\r\n")), "{:?}", here.asked());
    assert!(other.asked()[0].contains(&format!("Host: 127.0.0.1:{port}\r\n")), "{:?}", other.asked());
}

#[tokio::test]
async fn a_certificate_of_anybody_will_do_but_plain_text_is_recognised() {
    let secret = TestServer::start_tls(|_| reply(200, "", "secret")).await;
    assert_eq!(ask(&secret.action("/", "HTTPS")).await.unwrap().body, "secret");
    let plain = TestServer::start(|_| reply(400, "", "plain")).await;
    let refused = ask(&plain.action("/", "HTTPS")).await.unwrap_err();
    assert!(refused.ends_with("server gave HTTP response to HTTPS client"), "{refused}");
}

#[tokio::test]
async fn a_certificate_that_nobody_can_read_will_do_too() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let answers = |_: &str| reply(200, "", "old");
        let old = TestServer::start_with_certificate(b"not X.509", &[version], answers).await;
        assert_eq!(ask(&old.action("/", "HTTPS")).await.unwrap().body, "old", "{version:?}");
    }
}

#[tokio::test]
async fn only_the_beginning_of_an_answer_is_read() {
    let server = TestServer::start(|_| reply(200, "", &"x".repeat(1 << 20))).await;
    assert_eq!(ask(&server.action("/", "HTTP")).await.unwrap().body.len(), 10 << 10);
}

#[tokio::test]
async fn who_does_not_answer_is_named() {
    let server = TestServer::start(|_| "HTTP".to_owned()).await;
    let (port, action) = (server.port, server.action("/x", "HTTP"));
    let cut = ask(&action).await.unwrap_err();
    assert_eq!(cut, format!("Get \"http://127.0.0.1:{port}/x\": EOF"));
    server.stop().await;
    let refused = ask(&action).await.unwrap_err();
    let wanted =
        format!("Get \"http://127.0.0.1:{port}/x\": dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(refused, wanted);
}

#[tokio::test]
async fn a_server_that_speaks_http_2_only_is_asked_in_it() {
    let server = TestServer::start_http2().await;
    let action = server.action("/healthz?full=1", "HTTPS");
    let answer = |host: String| Ok(HttpAnswer { code: 200, body: format!("https://{host}/healthz?full=1") });
    assert_eq!(ask(&action).await, answer(format!("127.0.0.1:{}", server.port)));
    assert_eq!(ask(&with_headers(action, &[("Host", "me.example")])).await, answer("me.example".to_owned()));
}

#[tokio::test]
async fn a_tls_connection_may_be_closed_without_a_word_if_the_answer_is_whole() {
    let without_length = "HTTP/1.1 200 Told\r\n\r\nall of it";
    let cut = "HTTP/1.1 200 Told\r\ncontent-length: 100\r\n\r\nsome of it";
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (answer, wanted) in [(without_length, Some("all of it")), (cut, None)] {
            let server = TestServer::start_abrupt_tls(version, move |_| answer.to_owned()).await;
            let body = ask(&server.action("/", "HTTPS")).await.map(|answer| answer.body);
            assert_eq!(body.as_deref().ok(), wanted, "{version:?}: {body:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_says_nothing_of_the_container() {
    let server = TestServer::start(|_| "HTTP/1.1 200 Told\r\ncontent-length: 9\r\n\r\ncut".to_owned()).await;
    let ips = [Ipv4Addr::LOCALHOST.into()];
    let container = Container::default();
    let http = PodHttp::default();
    let action = server.action("/", "HTTP");
    let broken = http.get(None, "probe", &action, &container, &ips).await.unwrap_err();
    assert!(matches!(broken, HttpError::BrokenAnswer(_)) && !broken.is_about_answer(), "{broken:?}");
    let stalls = TestServer::start_stalling("HTTP/1.1 200 Told\r\ncontent-length: 9\r\n\r\ncut").await;
    let soon = Some(Duration::from_millis(200));
    let late = http.get(soon, "probe", &stalls.action("/", "HTTP"), &container, &ips).await.unwrap_err();
    assert!(matches!(late, HttpError::BrokenAnswer(ConnectionError::LateBody)), "{late:?}");
    let silent = TestServer::start_stalling("").await;
    let late = http.get(soon, "probe", &silent.action("/", "HTTP"), &container, &ips).await.unwrap_err();
    assert!(late.is_about_answer() && matches!(late, HttpError::NoAnswer { .. }), "{late:?}");
}
