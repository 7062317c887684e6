//! `httpGet` hooks: a question to the container itself. Any answer will do.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Why a question could not be asked, or was not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpHookError {
    #[error("the pod has no address to ask; give one with host")]
    NoAddress,
    #[error("the container has no port named {0:?}")]
    NoPort(String),
    #[error("{0} is not a port")]
    BadPort(i32),
    #[error("GET {url}: {source}")]
    NoAnswer { url: String, source: reqwest::Error },
}

/// Asks; ready when there is an answer.
pub(super) async fn run(
    action: &HTTPGetAction,
    container: &Container,
    ips: &[IpAddr],
) -> Result<(), HttpHookError> {
    let url = url(action, container, ips)?;
    // Somebody may already have chosen a provider for this process, and then it is theirs.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = |source| HttpHookError::NoAnswer { url: url.clone(), source };
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // A container asks itself: there is nobody to be deceived.
        .tls_danger_accept_invalid_certs(true)
        .user_agent(concat!("kube-lifecycle/rubelet-", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(failed)?;
    let mut request = client.get(&url);
    for header in action.http_headers.iter().flatten() {
        request = request.header(&header.name, &header.value);
    }
    request.send().await.map(|_| ()).map_err(failed)
}

fn url(action: &HTTPGetAction, container: &Container, ips: &[IpAddr]) -> Result<String, HttpHookError> {
    let scheme = action.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let host = match (action.host.as_deref().filter(|host| !host.is_empty()), ips.first()) {
        (Some(host), _) => host.to_owned(),
        (None, Some(IpAddr::V4(ip))) => ip.to_string(),
        (None, Some(IpAddr::V6(ip))) => format!("[{ip}]"),
        (None, None) => return Err(HttpHookError::NoAddress),
    };
    let number = match &action.port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
            let number = named.map(|port| port.container_port).or_else(|| name.parse().ok());
            number.ok_or_else(|| HttpHookError::NoPort(name.clone()))?
        }
    };
    let port = u16::try_from(number).ok().filter(|port| *port > 0).ok_or(HttpHookError::BadPort(number))?;
    let path = action.path.as_deref().unwrap_or_default().trim_start_matches('/');
    Ok(format!("{scheme}://{host}:{port}/{path}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn action(host: Option<&str>, port: IntOrString, path: &str, scheme: Option<&str>) -> HTTPGetAction {
        HTTPGetAction {
            host: host.map(str::to_owned),
            port,
            path: Some(path.to_owned()),
            scheme: scheme.map(str::to_owned),
            http_headers: None,
        }
    }

    fn container() -> Container {
        let port =
            ContainerPort { name: Some("web".to_owned()), container_port: 8080, ..ContainerPort::default() };
        Container { ports: Some(vec![port]), ..Container::default() }
    }

    #[test]
    fn addresses_and_ports_are_found() {
        let v4 = ["10.0.0.7".parse().unwrap()];
        let v6 = ["fd00::7".parse().unwrap()];
        let named = || IntOrString::String("web".to_owned());
        let told =
            |action, ips: &[IpAddr]| url(&action, &container(), ips).map_err(|error| error.to_string());
        assert_eq!(told(action(None, named(), "/bye", None), &v4).unwrap(), "http://10.0.0.7:8080/bye");
        assert_eq!(
            told(action(None, IntOrString::Int(1), "", Some("HTTPS")), &v6).unwrap(),
            "https://[fd00::7]:1/"
        );
        assert_eq!(told(action(Some("h"), IntOrString::Int(80), "a", None), &[]).unwrap(), "http://h:80/a");
        assert!(told(action(None, named(), "", None), &[]).is_err());
        assert!(told(action(None, IntOrString::String("x".to_owned()), "", None), &v4).is_err());
        assert!(told(action(None, IntOrString::Int(0), "", None), &v4).is_err());
    }

    #[tokio::test]
    async fn any_answer_will_do() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = i32::from(server.local_addr().unwrap().port());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let read = stream.read(&mut buffer).await.unwrap();
            stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        });
        let asked = action(None, IntOrString::Int(port), "/bye", None);
        run(&asked, &container(), &["127.0.0.1".parse().unwrap()]).await.unwrap();
        assert!(serving.await.unwrap().starts_with("GET /bye HTTP/1.1\r\n"));
    }
}
