//! Network probes of real servers on loopback.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, GRPCAction, HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpListener;

use super::*;
use crate::probe::{ProbeLimits, ProbeMetrics};
use crate::reach::testkit::{TestServer, reply};
use crate::testkit::FakeRuntime;

async fn ask(probe: Probe) -> Result<Answer, String> {
    ask_within(probe, Duration::from_secs(60)).await
}

async fn ask_within(probe: Probe, timeout: Duration) -> Result<Answer, String> {
    let asker = Asker {
        runtime: Arc::new(FakeRuntime::default()),
        http: PodHttp::default(),
        gate: Gate::new(ProbeLimits::default(), ProbeMetrics::default()),
    };
    let question = Question {
        id: "c-0".into(),
        container: Arc::new(Container::default()),
        probe: Arc::new(probe),
        ips: [Ipv4Addr::LOCALHOST.into()].into(),
        timeout,
    };
    asker.ask(&question).await.map_err(|error| error.to_string())
}

fn http(action: HTTPGetAction) -> Probe {
    Probe { http_get: Some(action), ..Probe::default() }
}

fn tcp(port: u16) -> Probe {
    let action = TCPSocketAction { port: IntOrString::Int(port.into()), ..TCPSocketAction::default() };
    Probe { tcp_socket: Some(action), ..Probe::default() }
}

fn grpc(port: u16, service: Option<&str>) -> Probe {
    let action = GRPCAction { port: port.into(), service: service.map(str::to_owned) };
    Probe { grpc: Some(action), ..Probe::default() }
}

/// Returns a port on which nothing listens.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn said(answer: Result<Answer, String>) -> String {
    match answer {
        Ok(Answer::Bad(said)) => said,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn http_codes_from_200_to_399_are_well() {
    let server = TestServer::start(|asked| {
        let code = asked.split(['/', ' ']).nth(2).and_then(|code| code.parse().ok()).unwrap_or(200);
        reply(code, "location: http://elsewhere.invalid/\r\n", "body")
    })
    .await;
    let answer = async |code: u16| ask(http(server.action(&format!("/{code}"), "HTTP"))).await.unwrap();
    let odd = Answer::Odd("Probe terminated redirects, Response body: body".to_owned());
    let bad = |code: u16| Answer::Bad(format!("HTTP probe failed with statuscode: {code}"));
    for (code, wanted) in [
        (200, Answer::Good),
        (299, Answer::Good),
        (302, odd.clone()),
        (399, odd),
        (400, bad(400)),
        (404, bad(404)),
        (500, bad(500)),
    ] {
        assert_eq!(answer(code).await, wanted, "{code}");
    }
}

#[tokio::test]
async fn who_does_not_listen_answers_badly_but_a_port_without_a_name_is_our_trouble() {
    let port = closed_port().await;
    let action = HTTPGetAction { port: IntOrString::Int(port.into()), ..HTTPGetAction::default() };
    assert!(said(ask(http(action)).await).ends_with(": connect: connection refused"));
    let named = HTTPGetAction { port: IntOrString::String("web".to_owned()), ..HTTPGetAction::default() };
    assert!(ask(http(named)).await.unwrap_err().starts_with("couldn't find port"));
    assert_eq!(said(ask(tcp(port)).await), format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
    let refused = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 50ms: context deadline exceeded"
    );
    assert_eq!(said(ask_within(grpc(port, None), Duration::from_millis(50)).await), refused);
    assert!(ask(Probe::default()).await.unwrap_err().starts_with("missing probe handler"));
}

#[tokio::test]
async fn who_says_nothing_answers_badly_when_time_is_over() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let action = HTTPGetAction { port: IntOrString::Int(port.into()), ..HTTPGetAction::default() };
    let soon = Duration::from_millis(50);
    assert_eq!(
        said(ask_within(http(action), soon).await),
        format!(
            "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        )
    );
    let grpc = said(ask_within(grpc(port, None), soon).await);
    assert_eq!(grpc, "timeout: health rpc did not complete within 50ms");
    assert_eq!(ask(tcp(port)).await, Ok(Answer::Good), "to listen is enough");
}

#[tokio::test]
async fn grpc_services_are_asked_for_their_health() {
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("up", tonic_health::ServingStatus::Serving).await;
    reporter.set_service_status("down", tonic_health::ServingStatus::NotServing).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
    let serving = tokio::spawn(server);
    assert_eq!(ask(grpc(port, None)).await, Ok(Answer::Good), "the server itself");
    assert_eq!(ask(grpc(port, Some("up"))).await, Ok(Answer::Good));
    assert_eq!(
        said(ask(grpc(port, Some("down"))).await),
        "service unhealthy (responded with \"NOT_SERVING\")"
    );
    assert_eq!(
        said(ask(grpc(port, Some("unheard-of"))).await),
        "error: health rpc probe failed: rpc error: code = NotFound desc = service not registered"
    );
    serving.abort();
}

#[tokio::test]
async fn a_server_without_the_health_protocol_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder()
        .add_routes(tonic::service::Routes::default())
        .serve_with_incoming(incoming);
    let serving = tokio::spawn(server);
    let said = said(ask(grpc(port, None)).await);
    assert!(
        said.starts_with(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        ),
        "{said}"
    );
    serving.abort();
}
