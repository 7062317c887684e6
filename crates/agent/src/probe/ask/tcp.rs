//! A TCP port: success if something listens on it.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, TCPSocketAction};

use super::{Answer, AskError};
use crate::reach::{Address, Dialer};

pub(super) async fn ask(
    dialer: &Dialer,
    action: &TCPSocketAction,
    container: &Container,
    ips: &[IpAddr],
    timeout: Duration,
) -> Result<Answer, AskError> {
    let address = Address::of(action.host.as_deref(), &action.port, container, ips)?;
    Ok(match tokio::time::timeout(timeout, dialer.dial(&address)).await {
        Ok(Ok(_)) => Answer::Good,
        Ok(Err(error)) => Answer::Bad(error.to_string()),
        Err(_) => Answer::Bad(format!("dial tcp {address}: i/o timeout")),
    })
}
