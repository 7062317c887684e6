//! The gRPC health protocol, without TLS: success if the service is `SERVING`.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, GRPCAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pleg::GoDuration;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Answer, AskError};
use crate::reach::{Address, KUBERNETES};

/// How long to wait after a failed connection attempt: the same as grpc-go's initial backoff.
const REDIAL: Duration = Duration::from_secs(1);

pub(super) async fn ask(
    action: &GRPCAction,
    container: &Container,
    ips: &[IpAddr],
    timeout: Duration,
) -> Result<Answer, AskError> {
    let address = Address::of(None, &IntOrString::Int(action.port), container, ips)?;
    let endpoint = &Endpoint::from_shared(format!("http://{address}"))
        .and_then(|endpoint| endpoint.user_agent(format!("kube-probe/{KUBERNETES}")))
        .map_err(|_| AskError::Address(address.to_string()))?;
    let within = GoDuration(timeout);
    let over = tokio::time::Instant::now() + timeout;
    let Ok(channel) = tokio::time::timeout_at(over, connected(|| endpoint.connect())).await else {
        return Ok(Answer::Bad(format!(
            "timeout: failed to connect service \"{address}\" within {within}: context deadline exceeded"
        )));
    };
    let question = HealthCheckRequest { service: action.service.clone().unwrap_or_default() };
    let mut client = HealthClient::new(channel);
    let answer = tokio::time::timeout_at(over, client.check(question)).await;
    Ok(match answer.unwrap_or_else(|_| Err(Status::deadline_exceeded(""))) {
        Ok(health) => match health.into_inner().status() {
            ServingStatus::Serving => Answer::Good,
            status => Answer::Bad(format!("service unhealthy (responded with {:?})", status.as_str_name())),
        },
        Err(status) => Answer::Bad(refusal(&status, within)),
    })
}

/// Connects, retrying forever: a server that does not listen yet may do so in a moment, so there is no answer until
/// there is a connection.
async fn connected<C, E: fmt::Debug, F: Future<Output = Result<C, E>>>(mut dial: impl FnMut() -> F) -> C {
    loop {
        match dial().await {
            Ok(connection) => return connection,
            Err(error) => tracing::debug!(?error, "a gRPC probe is not let in yet"),
        }
        tokio::time::sleep(REDIAL).await;
    }
}

/// Returns the kubelet's message for a service that does not report its health.
fn refusal(status: &Status, within: GoDuration) -> String {
    let (code, message) = (status.code(), status.message());
    match code {
        Code::Unimplemented => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        ),
        Code::DeadlineExceeded => format!("timeout: health rpc did not complete within {within}"),
        // This is the only code whose name differs from Go's.
        Code::Cancelled => rpc_failed("Canceled", message),
        code => rpc_failed(&format!("{code:?}"), message),
    }
}

fn rpc_failed(code: &str, message: &str) -> String {
    format!("error: health rpc probe failed: rpc error: code = {code} desc = {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_listen_yet_is_tried_again_and_again() {
        let begun = tokio::time::Instant::now();
        let mut dials = 0;
        let dial = || {
            dials += 1;
            std::future::ready(if dials < 4 { Err("connection refused") } else { Ok("connected") })
        };
        assert_eq!(connected(dial).await, "connected");
        assert_eq!((dials, begun.elapsed()), (4, 3 * REDIAL));
    }

    #[test]
    fn refusals_are_told_in_the_kubelets_words() {
        let failed = "error: health rpc probe failed: rpc error: code = ";
        for (status, wanted) in [
            (
                Status::unimplemented("unknown service"),
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service"
                    .to_owned(),
            ),
            (Status::deadline_exceeded("late"), "timeout: health rpc did not complete within 1.5s".to_owned()),
            (Status::not_found("unknown service"), format!("{failed}NotFound desc = unknown service")),
            (Status::cancelled("no"), format!("{failed}Canceled desc = no")),
            (Status::unknown(""), format!("{failed}Unknown desc = ")),
            (Status::data_loss("x"), format!("{failed}DataLoss desc = x")),
        ] {
            assert_eq!(refusal(&status, GoDuration(Duration::from_millis(1500))), wanted);
        }
    }
}
