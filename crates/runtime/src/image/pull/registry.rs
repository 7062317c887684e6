//! One registry as seen by one pull: its errors classified, and limits on what it may send.
//!
//! No response is trusted to be short: a document is read up to its limit, and only the beginning of an error. Blobs
//! are counted by whoever reads them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, RANGE, WWW_AUTHENTICATE};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::RwLock;

use super::auth::Auth;
use super::challenge::Challenge;
use super::{PullOptions, PullReason};
use crate::image::digest::Digest;
use crate::image::manifest::ManifestError;
use crate::image::name::ImageName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The same limit as in other clients and in registries.
const MAX_MANIFEST: usize = 4 << 20;
/// Tokens have a few thousand bytes.
const MAX_TOKEN: usize = 64 << 10;
/// How much of an error is read: only one line of it will ever be shown.
const MAX_ERROR: usize = 8 << 10;
/// The maximum length of that line.
const MAX_LINE: usize = 200;
const DOCUMENTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// The registry of one image.
#[derive(Clone)]
pub(super) struct Registry {
    http: Client,
    /// The base URL of its API, ending in a slash.
    base: Url,
    auth: Auth,
    login: Arc<RwLock<Login>>,
    name: ImageName,
}

/// How we authenticate, as far as it is known.
#[derive(Clone, Default)]
enum Login {
    #[default]
    Nothing,
    /// With our user name and password.
    Basic,
    /// With the token that we were given.
    Given(HeaderValue),
    /// With a token that was issued for this image. It will expire.
    Token(HeaderValue),
}

/// A blob that is being received.
pub(super) struct BlobStream {
    /// Whether it begins at the requested offset rather than at the beginning.
    pub(super) resumed: bool,
    pub(super) chunks: BoxStream<'static, std::io::Result<Bytes>>,
}

impl Registry {
    pub(super) fn new(name: &ImageName, options: &PullOptions) -> Result<Self, PullReason> {
        // One of the two providers must be installed for the process. If that has already happened, the earlier choice
        // stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let host = name.registry();
        let plain = is_loopback(host) || options.http_registries.iter().any(|registry| registry == host);
        let scheme = if plain { "http" } else { "https" };
        let base = format!("{scheme}://{}/v2/", server_of(host));
        let base = Url::parse(&base)
            .map_err(|error| PullReason::Refused(format!("{host} is not a host: {error}")))?;
        let mut http = Client::builder()
            .user_agent(concat!("rubelet/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(options.stall_timeout);
        if is_loopback(host) {
            // A proxy cannot reach this machine's loopback.
            http = http.no_proxy();
        }
        let http = http.build().map_err(failed)?;
        let login = match &options.auth {
            Auth::Bearer(token) => Login::Given(bearer(token)?),
            Auth::Anonymous | Auth::Basic { .. } => Login::Nothing,
        };
        let login = Arc::new(RwLock::new(login));
        Ok(Self { http, base, auth: options.auth.clone(), login, name: name.clone() })
    }

    /// Authenticates, in a separate request, so that a refusal can be told from an image that does not exist.
    pub(super) async fn log_in(&self) -> Result<(), PullReason> {
        if matches!(*self.login.read().await, Login::Given(_)) {
            return Ok(());
        }
        let answer = self.http.get(self.base.clone()).send().await.map_err(failed)?;
        // Any other answer is ignored: the next request will show whether it matters.
        match challenge(&answer) {
            Some(challenge) => self.meet(challenge).await,
            None => Ok(()),
        }
    }

    async fn meet(&self, challenge: Challenge) -> Result<(), PullReason> {
        let login = match (challenge, &self.auth) {
            (Challenge::Basic, Auth::Basic { .. }) => Login::Basic,
            // We have no credentials, but the image may be public.
            (Challenge::Basic, _) => return Ok(()),
            (Challenge::Bearer { realm, service }, _) => {
                Login::Token(bearer(&self.buy_token(&realm, service.as_deref()).await?)?)
            }
        };
        *self.login.write().await = login;
        Ok(())
    }

    async fn buy_token(&self, realm: &str, service: Option<&str>) -> Result<String, PullReason> {
        let unusable = |what: &str| PullReason::Refused(format!("{what} of its token server is invalid"));
        let mut url = self.base.join(realm).map_err(|_| unusable("the address"))?;
        url.query_pairs_mut()
            .append_pair("scope", &format!("repository:{}:pull", self.name.repository()))
            .extend_pairs(service.map(|service| ("service", service)));
        let mut request = self.http.get(url);
        if let Auth::Basic { username, password } = &self.auth {
            request = request.basic_auth(username, Some(password));
        }
        let answer = request.send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let text = whole(answer, MAX_TOKEN).await?.ok_or_else(|| unusable("the answer"))?;
        let token: Token = serde_json::from_slice(&text).map_err(|_| unusable("the answer"))?;
        token.token.or(token.access_token).ok_or_else(|| unusable("the answer"))
    }

    /// Fetches a manifest or index: the one that the name refers to, or the one with this digest.
    pub(super) async fn manifest(&self, digest: Option<&Digest>) -> Result<(Digest, Bytes), PullReason> {
        let wanted = digest.or(self.name.digest());
        let reference = match wanted {
            Some(digest) => digest.as_str(),
            None => self.name.tag().unwrap_or("latest"),
        };
        let path = format!("manifests/{reference}");
        let answer = self.get(&path, |request| request.header(ACCEPT, DOCUMENTS)).await?;
        let too_large = || ManifestError::TooLarge { limit: MAX_MANIFEST };
        let bytes = whole(answer, MAX_MANIFEST).await?.ok_or_else(too_large)?;
        let found = Digest::of(&bytes);
        match wanted {
            Some(wanted) if *wanted != found => Err(PullReason::Digest { wanted: wanted.clone(), found }),
            _ => Ok((found, bytes.into())),
        }
    }

    /// Fetches a small blob as a whole.
    pub(super) async fn document(&self, digest: &Digest, max: u64) -> Result<Vec<u8>, PullReason> {
        let mut stream = self.blob(digest, 0).await?.chunks;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.try_next().await.map_err(PullReason::Interrupted)? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > max {
                return Err(PullReason::TooLarge { digest: digest.clone(), limit: max });
            }
        }
        Ok(bytes)
    }

    /// Fetches a blob from this offset, or from the beginning if the registry does not support ranges.
    pub(super) async fn blob(&self, digest: &Digest, offset: u64) -> Result<BlobStream, PullReason> {
        let path = format!("blobs/{digest}");
        let answer = self
            .get(&path, |request| match offset {
                // Some registries answer a range that starts at zero with an error.
                0 => request,
                offset => request.header(RANGE, format!("bytes={offset}-")),
            })
            .await?;
        let resumed = answer.status() == StatusCode::PARTIAL_CONTENT;
        Ok(BlobStream { resumed, chunks: chunks(answer) })
    }

    /// Requests something from the image's repository, and once more with a new token if the current one is rejected.
    async fn get(
        &self,
        path: &str,
        prepare: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, PullReason> {
        let path = format!("{}/{path}", self.name.repository());
        let url = self.base.join(&path).map_err(|error| PullReason::Refused(error.to_string()))?;
        let mut may_renew = true;
        loop {
            let login = self.login.read().await.clone();
            let request = self.introduced(prepare(self.http.get(url.clone())), &login);
            let answer = request.send().await.map_err(failed)?;
            let is_stranger = answer.status() == StatusCode::UNAUTHORIZED
                && matches!(login, Login::Nothing | Login::Token(_));
            if is_stranger && may_renew {
                may_renew = false;
                match challenge(&answer) {
                    Some(challenge) => self.meet(challenge).await?,
                    None => self.log_in().await?,
                }
                continue;
            }
            return match answer.status() {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
                _ => Err(refusal(answer).await),
            };
        }
    }

    fn introduced(&self, request: RequestBuilder, login: &Login) -> RequestBuilder {
        match (login, &self.auth) {
            (Login::Given(header) | Login::Token(header), _) => request.header(AUTHORIZATION, header),
            (Login::Basic, Auth::Basic { username, password }) => {
                request.basic_auth(username, Some(password))
            }
            (Login::Basic | Login::Nothing, _) => request,
        }
    }
}

/// The answer of a token server. Some use one field, some the other, most both.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

fn bearer(token: &str) -> Result<HeaderValue, PullReason> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| PullReason::Refused("the token contains invalid characters".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

fn challenge(answer: &Response) -> Option<Challenge> {
    let headers = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    Challenge::of(headers.filter_map(|header| header.to_str().ok()))
}

/// Reads a body; `None` if it is longer than this.
async fn whole(answer: Response, most: usize) -> Result<Option<Vec<u8>>, PullReason> {
    let (bytes, is_whole) = beginning(answer, most).await?;
    Ok(is_whole.then_some(bytes))
}

/// Reads a body up to this length, and returns whether that is all of it. The rest is not even fetched: the connection
/// ends with the answer.
async fn beginning(mut answer: Response, most: usize) -> Result<(Vec<u8>, bool), PullReason> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        let room = most - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((bytes, false));
        }
    }
    Ok((bytes, true))
}

fn chunks(answer: Response) -> BoxStream<'static, std::io::Result<Bytes>> {
    let next = |mut answer: Response| async move {
        let chunk = answer.chunk().await.map_err(|error| std::io::Error::other(chain(&error)))?;
        Ok(chunk.map(|chunk| (chunk, answer)))
    };
    futures_util::stream::try_unfold(answer, next).boxed()
}

/// Maps registries to their actual server, where the name differs.
fn server_of(registry: &str) -> &str {
    match registry {
        "docker.io" => "registry-1.docker.io",
        other => other,
    }
}

/// Returns whether the registry is on this machine, so that plain HTTP is safe.
pub(super) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => registry.split(':').next().unwrap_or(registry),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Classifies failures by what can be done about them.
fn failed(error: reqwest::Error) -> PullReason {
    let connect = error.is_connect();
    let error = std::io::Error::other(chain(&error.without_url()));
    if connect { PullReason::Unreachable(error) } else { PullReason::Interrupted(error) }
}

/// Like [`failed`], for an error response.
async fn refusal(answer: Response) -> PullReason {
    let status = answer.status();
    // Whatever part of the body was received is used, however the transfer ended.
    let said = beginning(answer, MAX_ERROR).await.map(|(bytes, _)| bytes).unwrap_or_default();
    told_apart(status, &said)
}

/// The body of an error response.
#[derive(Deserialize)]
struct Complaints {
    errors: Vec<Complaint>,
}

#[derive(Deserialize)]
struct Complaint {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

fn told_apart(status: StatusCode, said: &[u8]) -> PullReason {
    let complaints = serde_json::from_slice(said).map_or_else(|_| Vec::new(), |all: Complaints| all.errors);
    let has = |codes: &[&str]| complaints.iter().any(|complaint| codes.contains(&complaint.code.as_str()));
    let words = if complaints.is_empty() {
        String::from_utf8_lossy(said).into_owned()
    } else {
        complaints.iter().map(|complaint| complaint.message.as_str()).collect::<Vec<_>>().join("; ")
    };
    let line = || describe(status, &words);
    if has(&["UNAUTHORIZED", "DENIED"]) {
        return PullReason::Unauthorized;
    }
    if has(&["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "NOT_FOUND", "BLOB_UNKNOWN"]) {
        return PullReason::NotFound;
    }
    match status.as_u16() {
        401 | 403 => PullReason::Unauthorized,
        404 => PullReason::NotFound,
        408 | 429 | 500.. => PullReason::Busy(line()),
        _ if has(&["TOOMANYREQUESTS"]) => PullReason::Busy(line()),
        _ => PullReason::Refused(line()),
    }
}

fn describe(status: StatusCode, words: &str) -> String {
    let line: String = words.trim().lines().next().unwrap_or_default().chars().take(MAX_LINE).collect();
    format!("HTTP {} {line}", status.as_u16()).trim_end().to_owned()
}

/// All messages in the chain of sources: the outermost error only says that a request failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.9.9.9", "[::1]:5000", "[::1]"]
        {
            assert!(is_loopback(registry), "{registry}");
        }
        for registry in
            ["docker.io", "localhost.example", "10.0.0.1:5000", "127.0.0.1.example:5000", "[::2]:1"]
        {
            assert!(!is_loopback(registry), "{registry}");
        }
    }

    #[test]
    fn errors_by_what_can_be_done_about_them() {
        let complaint =
            |code: &str| format!(r#"{{"errors":[{{"code":"{code}","message":"why","detail":[1]}}]}}"#);
        for (status, said, wanted) in [
            (401, String::new(), "Unauthorized"),
            (404, complaint("DENIED"), "Unauthorized"),
            (400, complaint("UNAUTHORIZED"), "Unauthorized"),
            (404, "<html>".to_owned(), "NotFound"),
            (400, complaint("NAME_UNKNOWN"), "NotFound"),
            (429, String::new(), "Busy(\"HTTP 429\")"),
            (400, complaint("TOOMANYREQUESTS"), "Busy(\"HTTP 400 why\")"),
            (503, "\n sorry\nindeed".to_owned(), "Busy(\"HTTP 503 sorry\")"),
            (500, complaint("UNKNOWN"), "Busy(\"HTTP 500 why\")"),
            (418, complaint("UNSUPPORTED"), "Refused(\"HTTP 418 why\")"),
            (302, "{".to_owned(), "Refused(\"HTTP 302 {\")"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(format!("{:?}", told_apart(status, said.as_bytes())), wanted, "{status} {said}");
        }
        let PullReason::Busy(long) = told_apart(StatusCode::BAD_GATEWAY, &[b'x'; MAX_ERROR]) else {
            panic!("another reason");
        };
        assert_eq!(long.len(), "HTTP 502 ".len() + MAX_LINE);
    }

    #[test]
    fn a_registry_is_asked_where_it_is() {
        for (name, wanted) in [
            ("busybox", "https://registry-1.docker.io/v2/"),
            ("r.io:5000/x", "https://r.io:5000/v2/"),
            ("localhost:5000/x", "http://localhost:5000/v2/"),
            ("[::1]:5000/x", "http://[::1]:5000/v2/"),
        ] {
            let registry = Registry::new(&name.parse().unwrap(), &PullOptions::default()).unwrap();
            assert_eq!(registry.base.as_str(), wanted);
        }
    }
}
