//! The gRPC health protocol, without TLS: well if the service is `SERVING`.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, GRPCAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pleg::GoDuration;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Answer, AskError};
use crate::reach::{Address, KUBERNETES};

pub(super) async fn ask(
    action: &GRPCAction,
    container: &Container,
    ips: &[IpAddr],
    timeout: Duration,
) -> Result<Answer, AskError> {
    let address = Address::of(None, &IntOrString::Int(action.port), container, ips)?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .and_then(|endpoint| endpoint.user_agent(format!("kube-probe/{KUBERNETES}")))
        .map_err(|_| AskError::Address(address.to_string()))?;
    let within = GoDuration(timeout);
    let asked = async {
        let channel = match endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => return Answer::Bad(format!("failed to connect to {address}: {}", causes(&error))),
        };
        let service = action.service.clone().unwrap_or_default();
        let question = HealthCheckRequest { service };
        match HealthClient::new(channel).check(question).await.map(|answer| answer.into_inner().status()) {
            Ok(ServingStatus::Serving) => Answer::Good,
            Ok(status) => {
                Answer::Bad(format!("service unhealthy (responded with {:?})", status.as_str_name()))
            }
            Err(status) if status.code() == Code::Unimplemented => Answer::Bad(format!(
                "this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
                status.message()
            )),
            Err(status) => Answer::Bad(format!(
                "error: health rpc probe failed: {:?}: {}",
                status.code(),
                status.message()
            )),
        }
    };
    Ok(tokio::time::timeout(timeout, asked)
        .await
        .unwrap_or_else(|_| Answer::Bad(format!("timeout: health rpc did not complete within {within}"))))
}

/// An error with what led to it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
