//! `httpGet`, for probes and hooks: sends one request to a container, as the kubelet does.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use reqwest::Url;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use super::connection::{self, Carried, ConnectionError, Dialer};
use super::{Address, KUBERNETES, ReachError};

/// How much of an answer is read.
const MOST_BODY: usize = 10 << 10;

/// The maximum number of requests in a chain of redirects: the last redirect is not followed.
const MOST_REDIRECTS: usize = 10;

/// Why a container was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error("{url:?} is not a URL: {why}")]
    BadUrl { url: String, why: String },
    #[error("Get {url:?}: net/http: invalid header field value for {name:?}")]
    Header { url: String, name: String },
    #[error("cannot set up TLS: {0}")]
    NoTls(Arc<str>),
    #[error("Get {url:?}: {source}")]
    NoAnswer { url: String, source: ConnectionError },
    /// The answer started but did not end.
    #[error("{0}")]
    BrokenAnswer(ConnectionError),
    #[error("Get {url:?}: stopped after {MOST_REDIRECTS} redirects")]
    Circles { url: String },
}

impl HttpError {
    /// Whether the container was asked and did not answer well; otherwise nothing is known about it.
    pub(crate) fn is_about_answer(&self) -> bool {
        match self {
            // As under a kubelet, a header that cannot be sent counts as a bad answer of the container.
            Self::NoAnswer { .. } | Self::Circles { .. } | Self::Header { .. } => true,
            Self::Reach(_) | Self::BadUrl { .. } | Self::NoTls(_) | Self::BrokenAnswer(_) => false,
        }
    }
}

/// The answer of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) code: u16,
    /// Its beginning.
    pub(crate) body: String,
}

/// Sends HTTP requests to containers. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct PodHttp {
    dialer: Dialer,
    tls: Result<Arc<ClientConfig>, Arc<str>>,
}

impl Default for PodHttp {
    fn default() -> Self {
        Self { dialer: Dialer::default(), tls: connection::tls().map_err(|error| error.to_string().into()) }
    }
}

impl PodHttp {
    /// Returns the dialer for its connections.
    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Sends a request to a container as `kube-<who>` and reads the beginning of its answer, all of it `within` that
    /// time if there is a limit.
    pub(crate) async fn get(
        &self,
        within: Option<Duration>,
        who: &str,
        action: &HTTPGetAction,
        container: &Container,
        ips: &[IpAddr],
    ) -> Result<HttpAnswer, HttpError> {
        let until = within.map(|within| Instant::now() + within);
        let text = url(action, container, ips)?;
        let mut headers = headers(&text, who, action)?;
        let mut url =
            Url::parse(&text).map_err(|why| HttpError::BadUrl { url: text, why: why.to_string() })?;
        let asked = url.host_str().map(str::to_owned);
        for _ in 0..MOST_REDIRECTS {
            let mut carried = self.ask(&url, &headers, until).await?;
            // A redirect to another host says nothing about the container: the redirect itself is then the answer.
            let next = elsewhere(&url, &carried.answer).filter(|next| next.host_str() == asked.as_deref());
            let Some(next) = next else {
                let code = carried.answer.status().as_u16();
                let body = before(until, beginning(carried.answer.body_mut())).await;
                let body = body.unwrap_or(Err(ConnectionError::LateBody)).map_err(HttpError::BrokenAnswer)?;
                return Ok(HttpAnswer { code, body });
            };
            if next.origin() != url.origin() {
                headers.remove(HOST);
            }
            url = next;
        }
        Err(HttpError::Circles { url: url.to_string() })
    }

    async fn ask(
        &self,
        url: &Url,
        headers: &HeaderMap,
        until: Option<Instant>,
    ) -> Result<Carried, HttpError> {
        let refused = |why: &str| HttpError::BadUrl { url: url.to_string(), why: why.to_owned() };
        let tls = match url.scheme() {
            "https" => Some(self.tls.as_ref().map_err(|why| HttpError::NoTls(why.clone()))?),
            _ => None,
        };
        let host = url.host_str().ok_or_else(|| refused("it has no host"))?;
        let port = url.port_or_known_default().ok_or_else(|| refused("it has no port"))?;
        let address = Address { host: host.trim_matches(['[', ']']).to_owned(), port };
        let mut question = Request::new(Empty::<Bytes>::new());
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        *question.uri_mut() = target.parse().map_err(|_| refused("its path cannot be requested"))?;
        *question.headers_mut() = headers.clone();
        if !headers.contains_key(HOST) {
            let host = HeaderValue::from_str(&address.to_string());
            question
                .headers_mut()
                .insert(HOST, host.map_err(|_| refused("its host is not valid in a request"))?);
        }
        let carried = before(until, connection::ask(&self.dialer, tls, &address, question)).await;
        carried
            .unwrap_or(Err(ConnectionError::Late))
            .map_err(|source| HttpError::NoAnswer { url: url.to_string(), source })
    }
}

/// Returns the result of a future, or `None` if it takes longer than `until`.
async fn before<T>(until: Option<Instant>, something: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => timeout_at(until, something).await.ok(),
        None => Some(something.await),
    }
}

/// Returns where an answer redirects to, if anywhere.
fn elsewhere(url: &Url, answer: &Response<Incoming>) -> Option<Url> {
    let sends_us_on = matches!(
        answer.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = answer.headers().get(LOCATION).filter(|_| sends_us_on)?;
    url.join(location.to_str().ok()?).ok()
}

async fn beginning(body: &mut Incoming) -> Result<String, ConnectionError> {
    let mut read = Vec::new();
    while read.len() < MOST_BODY
        && let Some(frame) = body.frame().await
    {
        if let Some(data) = frame?.data_ref() {
            read.extend_from_slice(data);
        }
    }
    read.truncate(MOST_BODY);
    Ok(String::from_utf8_lossy(&read).into_owned())
}

fn url(action: &HTTPGetAction, container: &Container, ips: &[IpAddr]) -> Result<String, ReachError> {
    let scheme = action.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let address = Address::of(action.host.as_deref(), &action.port, container, ips)?;
    let path = action.path.as_deref().unwrap_or_default().trim_start_matches('/');
    Ok(format!("{scheme}://{address}/{path}"))
}

/// Returns the headers of the manifest, and the default ones that it does not override.
fn headers(url: &str, who: &str, action: &HTTPGetAction) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    for header in action.http_headers.iter().flatten() {
        let refused = || HttpError::Header { url: url.to_owned(), name: header.name.clone() };
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| refused())?;
        let value = HeaderValue::from_bytes(header.value.as_bytes()).map_err(|_| refused())?;
        if name == HOST {
            headers.insert(name, value);
        } else {
            headers.append(name, value);
        }
    }
    let agent = HeaderValue::from_str(&format!("kube-{who}/{KUBERNETES}"));
    if let (None, Ok(agent)) = (headers.get(USER_AGENT), agent) {
        headers.insert(USER_AGENT, agent);
    }
    match headers.get(ACCEPT) {
        None => {
            headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        }
        // Empty means that the header is not sent.
        Some(accept) if accept.is_empty() => {
            headers.remove(ACCEPT);
        }
        Some(_) => {}
    }
    // Every request uses a new connection, because whether a connection is possible is part of the check.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}

#[cfg(test)]
mod tests;
