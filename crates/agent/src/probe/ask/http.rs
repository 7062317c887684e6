//! An HTTP request: success if the answer is a 2xx or 3xx.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction};

use super::{Answer, AskError};
use crate::reach::PodHttp;

pub(super) async fn ask(
    http: &PodHttp,
    action: &HTTPGetAction,
    container: &Container,
    ips: &[IpAddr],
    timeout: Duration,
) -> Result<Answer, AskError> {
    match http.get(Some(timeout), "probe", action, container, ips).await {
        Ok(answer) => Ok(match answer.code {
            200..=299 => Answer::Good,
            300..=399 => Answer::Odd(format!("Probe terminated redirects, Response body: {}", answer.body)),
            code => Answer::Bad(format!("HTTP probe failed with statuscode: {code}")),
        }),
        Err(error) if error.is_about_answer() => Ok(Answer::Bad(error.to_string())),
        Err(error) => Err(AskError::Http(error)),
    }
}
