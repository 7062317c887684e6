use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{ExecAction, HTTPHeader, SleepAction, TCPSocketAction};

use super::*;
use crate::reach::testkit::{TestServer, reply};
use crate::testkit::FakeRuntime;

async fn run(runtime: &FakeRuntime, journal: &Journal, hook: LifecycleHandler) -> Result<(), String> {
    let container = Container { name: "c".to_owned(), ..Container::default() };
    let hooked = Hooked {
        runtime,
        http: &PodHttp::default(),
        journal,
        id: &"c-0".into(),
        container: &container,
        ips: vec![Ipv4Addr::LOCALHOST.into()],
    };
    hooked.run(&hook).await.map_err(|error| error.to_string())
}

fn http(action: HTTPGetAction) -> LifecycleHandler {
    LifecycleHandler { http_get: Some(action), ..LifecycleHandler::default() }
}

#[tokio::test]
async fn any_answer_over_http_will_do() {
    let server = TestServer::start(|_| reply(503, "", "busy")).await;
    let (runtime, journal) = (FakeRuntime::default(), Journal::new(pleg::Clock::start()));
    run(&runtime, &journal, http(server.action("/bye", "HTTP"))).await.unwrap();
    let asked = server.asked().remove(0);
    assert!(asked.starts_with("GET /bye HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("User-Agent: kube-lifecycle/1.36\r\n"), "{asked}");
    let action = server.action("/", "HTTP");
    server.stop().await;
    let refused = run(&runtime, &journal, http(action)).await.unwrap_err();
    assert!(refused.contains("connection refused"), "{refused}");
}

#[tokio::test]
async fn a_container_that_speaks_no_tls_is_asked_in_plain_and_people_are_told() {
    let server = TestServer::start(|_| reply(200, "", "")).await;
    let (runtime, journal) = (FakeRuntime::default(), Journal::new(pleg::Clock::start()));
    let header = |name: &str| HTTPHeader { name: name.to_owned(), value: "secret".to_owned() };
    let headers = Some(vec![header("authorization"), header("X-Other")]);
    let action = HTTPGetAction { http_headers: headers, ..server.action("/bye", "HTTPS") };
    run(&runtime, &journal, http(action)).await.unwrap();
    let told: Vec<_> = journal.told().into_iter().map(|one| one.reason).collect();
    assert_eq!(told, ["LifecycleHTTPFallback"]);
    let plain = server.asked().remove(1);
    assert!(plain.starts_with("GET /bye") && plain.contains("X-Other: secret"), "{plain}");
    assert!(!plain.to_lowercase().contains("authorization"), "it was for TLS only: {plain}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_will_do() {
    let server = TestServer::start(|_| "HTTP/1.1 200 Told\r\ncontent-length: 9\r\n\r\ncut".to_owned()).await;
    let (runtime, journal) = (FakeRuntime::default(), Journal::new(pleg::Clock::start()));
    run(&runtime, &journal, http(server.action("/bye", "HTTP"))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn commands_must_end_well_and_sleep_takes_its_time() {
    let (runtime, journal) = (FakeRuntime::default(), Journal::new(pleg::Clock::start()));
    let exec = || LifecycleHandler {
        exec: Some(ExecAction { command: Some(vec!["nginx".to_owned(), "-s".to_owned()]) }),
        ..LifecycleHandler::default()
    };
    run(&runtime, &journal, exec()).await.unwrap();
    runtime.exec_answers("nginx -s", 4, "no such signal\n");
    let failed = run(&runtime, &journal, exec()).await.unwrap_err();
    assert_eq!(failed, "command [\"nginx\", \"-s\"] exited with 4: no such signal");
    runtime.exec_answers("nginx -s", 4, &"x".repeat(1 << 20));
    let failed = run(&runtime, &journal, exec()).await.unwrap_err();
    assert!(failed.len() < 11 << 10, "{}", failed.len());
    let begun = tokio::time::Instant::now();
    let sleep = LifecycleHandler { sleep: Some(SleepAction { seconds: 7 }), ..LifecycleHandler::default() };
    run(&runtime, &journal, sleep).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
    let tcp =
        LifecycleHandler { tcp_socket: Some(TCPSocketAction::default()), ..LifecycleHandler::default() };
    assert!(run(&runtime, &journal, tcp).await.unwrap_err().starts_with("tcpSocket hooks"));
}
