//! Pods from a URL that is polled. Each request asks for the full text, unless the server still has the version of the
//! last `ETag`. Dates do not identify versions: an older version may be restored with its own date, and two versions
//! may be written within one second.
//!
//! A server that does not answer, or whose answer cannot be used, changes nothing. To have no pods, serve an empty
//! list.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url, redirect};
use thiserror::Error;
use tokio::time::{Instant, MissedTickBehavior};

use super::last_good::LastGood;
use super::{POLL_PERIOD, SetSender, Source, SourceId, SourceKind, SourceSet};
use crate::fnv::Fnv128;
use crate::manifest::{Issue, LARGEST_MANIFEST, Manifest, Origin, Problem, load};
use crate::off_thread::off_thread;

/// How long one request may take, including its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the first request may take before the pods kept by an earlier agent are sent. Pods should not wait for a
/// server that hangs; nor should a pod start that a responsive server no longer has.
const RECALLED_AFTER: Duration = Duration::from_secs(1);
const MOST_REDIRECTS: usize = 10;

/// A URL that serves a manifest.
#[derive(Clone, Debug)]
pub struct HttpSource {
    url: Url,
    node_name: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    header_file: Option<PathBuf>,
    poll_period: Duration,
    patience: Duration,
    kept_in: Option<PathBuf>,
    client: Client,
}

/// Why an HTTP source cannot be created.
#[derive(Debug, Error)]
pub enum HttpSourceError {
    /// The text is not a URL.
    #[error("{0:?} is not a URL: {1}")]
    NotAUrl(String, String),
    /// The scheme is neither HTTP nor HTTPS.
    #[error("{0}: a manifest URL must begin with http:// or https://")]
    Scheme(Url),
    /// It cannot be a request header. Its value may be a secret.
    #[error("{0:?} is not a valid HTTP header, or its value is not valid")]
    Header(String),
    /// TLS is unavailable, which nearly always means that the system has no root certificates.
    #[error(
        "cannot create an HTTPS client: {0}; are the system's root certificates installed (ca-certificates)?"
    )]
    Client(#[source] reqwest::Error),
}

impl HttpSource {
    /// Creates a source for the manifest at `url`, for the node `node_name`.
    ///
    /// # Errors
    ///
    /// If it can never work.
    pub fn new(url: &str, node_name: impl Into<String>) -> Result<Self, HttpSourceError> {
        let parsed =
            Url::parse(url).map_err(|error| HttpSourceError::NotAUrl(url.to_owned(), error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(HttpSourceError::Scheme(parsed));
        }
        let client = client(&parsed).build().map_err(HttpSourceError::Client)?;
        Ok(Self {
            url: parsed,
            node_name: node_name.into(),
            headers: Vec::new(),
            header_file: None,
            poll_period: POLL_PERIOD,
            patience: TIMEOUT,
            kept_in: None,
            client,
        })
    }

    /// Adds a header to each request. May be called repeatedly for the same name.
    ///
    /// # Errors
    ///
    /// If it is not a valid header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, HttpSourceError> {
        let header = parse_header(name, value);
        self.headers.push(header.ok_or_else(|| HttpSourceError::Header(name.to_owned()))?);
        Ok(self)
    }

    /// Adds the headers in this file to each request, one `Name: value` per line. The file is read again for each
    /// request, so that credentials can be rotated.
    #[must_use]
    pub fn header_file(self, path: impl Into<PathBuf>) -> Self {
        Self { header_file: Some(path.into()), ..self }
    }

    /// Keeps the last good answer below this folder, so that pods can start even while the server is down.
    #[must_use]
    pub fn keep_last_good(self, folder: impl Into<PathBuf>) -> Self {
        Self { kept_in: Some(folder.into()), ..self }
    }

    /// Sets how often to poll.
    #[must_use]
    pub fn poll_period(self, poll_period: Duration) -> Self {
        Self { poll_period, ..self }
    }

    /// Returns the URL as it may be shown: without credentials.
    fn place(&self) -> String {
        let mut url = self.url.clone();
        // These fail only for URLs that cannot have credentials.
        let _ = url.set_password(None);
        let _ = url.set_username("");
        url.to_string()
    }

    /// Requests the manifest, unless the server still has the version with this tag.
    async fn ask(&self, tag: Option<&HeaderValue>) -> Result<Answer, Issue> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        if let Some(path) = &self.header_file {
            let text = tokio::fs::read_to_string(path)
                .await
                .map_err(|error| Issue::Unreadable(format!("the header file {}: {error}", path.display())))?;
            headers.extend(parse_headers(&text)?);
        }
        headers.extend(tag.map(|tag| (IF_NONE_MATCH, tag.clone())));
        let answer = self
            .client
            .get(self.url.clone())
            .headers(headers)
            .timeout(self.patience)
            .send()
            .await
            .map_err(|error| self.unanswered(&error))?;
        match answer.status() {
            StatusCode::OK => {
                let tag = answer.headers().get(ETAG).cloned();
                Ok(Answer::Text { tag, text: self.body(answer).await? })
            }
            StatusCode::NOT_MODIFIED if tag.is_some() => Ok(Answer::Same),
            status if status.is_redirection() => Err(Issue::Refused(not_followed(&answer))),
            status => Err(Issue::Refused(format!("{status}"))),
        }
    }

    /// Reads the body, but never more of it than a manifest may have.
    async fn body(&self, mut answer: Response) -> Result<Vec<u8>, Issue> {
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.unanswered(&error))? {
            if body.len() + chunk.len() > LARGEST_MANIFEST {
                return Err(Issue::TooLarge { limit: LARGEST_MANIFEST });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Makes the first request, and sends what is known already if the answer takes long.
    async fn ask_first(&self, known: &Known, sets: &SetSender) -> Result<Answer, Issue> {
        let mut asking = std::pin::pin!(self.ask(None));
        match tokio::time::timeout(RECALLED_AFTER, &mut asking).await {
            Ok(answer) => answer,
            Err(_) => {
                known.tell_recalled(sets);
                asking.await
            }
        }
    }

    fn unanswered(&self, error: &reqwest::Error) -> Issue {
        // The outer errors only repeat the URL.
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Issue::Unreadable(if error.is_timeout() {
            format!("no answer within {} s", self.patience.as_secs_f32())
        } else {
            cause.to_string()
        })
    }
}

impl Source for HttpSource {
    fn id(&self) -> SourceId {
        SourceId::new(SourceKind::Http, self.place())
    }

    async fn run(self, sets: SetSender) {
        let source = self.clone();
        let mut known = off_thread(move || Known::recall(&source)).await;
        let mut ticks = tokio::time::interval_at(Instant::now(), self.poll_period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_first = true;
        loop {
            ticks.tick().await;
            let answer = if std::mem::take(&mut is_first) {
                self.ask_first(&known, &sets).await
            } else {
                self.ask(known.tag.as_ref()).await
            };
            match answer {
                Ok(answer) => {
                    if let Answer::Text { tag, text } = answer {
                        known = off_thread(move || known.taking(tag, &text)).await;
                    }
                    known.tell(&sets);
                }
                Err(issue) => known.tell_without_answer(issue, &sets),
            }
        }
    }
}

/// An answer of the server.
enum Answer {
    /// Nothing has changed.
    Same,
    Text {
        tag: Option<HeaderValue>,
        text: Vec<u8>,
    },
}

/// The most recent answer of the server.
struct Known {
    origin: Origin,
    kept: Option<LastGood>,
    /// A hash of the last answer: the same text need not be parsed again.
    text: Option<Fnv128>,
    /// The `ETag` of the last answer, if that could be used: one that could not may have been cut off.
    tag: Option<HeaderValue>,
    /// The last usable answer.
    good: Option<Manifest>,
    /// What is wrong with the last answer.
    problems: Vec<Problem>,
}

impl Known {
    /// Loads the answer that was kept before the agent was started.
    fn recall(source: &HttpSource) -> Self {
        let place = source.place();
        let kept = source.kept_in.as_ref().map(|folder| LastGood::new(folder, &place));
        let origin = Origin {
            source: SourceKind::Http,
            place,
            node_name: source.node_name.clone(),
            seen: crate::clock::now(),
        };
        let text = kept.as_ref().and_then(|kept| kept.recall(&origin.place));
        let good = text.and_then(|text| load(&text, &origin).ok());
        Self { origin, kept, text: None, tag: None, good, problems: Vec::new() }
    }

    fn taking(mut self, tag: Option<HeaderValue>, text: &[u8]) -> Self {
        let short = Some(Fnv128::of(text));
        if std::mem::replace(&mut self.text, short) == short {
            return self;
        }
        self.tag = None;
        self.origin.seen = crate::clock::now();
        match load(text, &self.origin) {
            Ok(mut manifest) => {
                self.problems = std::mem::take(&mut manifest.warnings);
                self.good = Some(manifest);
                self.tag = tag;
                self.kept.iter().for_each(|kept| kept.keep(&self.origin.place, text));
            }
            Err(problems) => self.problems = problems,
        }
        self
    }

    fn tell(&self, sets: &SetSender) {
        self.tell_with(self.problems.clone(), sets);
    }

    /// Sends what is known before the server has answered at all.
    fn tell_recalled(&self, sets: &SetSender) {
        if self.good.is_some() {
            self.tell(sets);
        }
    }

    fn tell_without_answer(&self, issue: Issue, sets: &SetSender) {
        let mut problems = self.problems.clone();
        problems.push(Problem::error(self.origin.place.as_str(), issue));
        self.tell_with(problems, sets);
    }

    fn tell_with(&self, problems: Vec<Problem>, sets: &SetSender) {
        match &self.good {
            Some(Manifest { pods, objects, .. }) => {
                sets.send(SourceSet { pods: pods.clone(), objects: Arc::new(objects.clone()), problems });
            }
            None => sets.cannot_tell(problems),
        }
    }
}

/// Parses one `Name: value` per line, skipping empty lines and those that begin with `#`.
fn parse_headers(text: &str) -> Result<HeaderMap, Issue> {
    let mut headers = HeaderMap::new();
    for (index, line) in
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        // The message leaves out the line, which may be a secret.
        let bad = || {
            Issue::Unreadable(format!("the header file: line {} is not of the form `Name: value`", index + 1))
        };
        let header = line.split_once(':').and_then(|(name, value)| parse_header(name, value));
        let (name, value) = header.ok_or_else(bad)?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn parse_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

fn client(url: &Url) -> ClientBuilder {
    // Something else in this process may already have installed a provider; it then stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .redirect(redirect::Policy::custom(stay_on_the_server))
        .user_agent(concat!("rubelet/", env!("CARGO_PKG_VERSION")))
        // Connections are not kept: the server may close one between two requests, at the very moment of the next.
        .pool_max_idle_per_host(0);
    if is_loopback(url) { client.no_proxy() } else { client }
}

/// Whether the server is on this machine. If so, no proxy is used, whatever the environment says, just as in Go.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Follows redirects on the same server only: credentials in the headers are for no other.
fn stay_on_the_server(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let from = attempt.previous().last();
    let same = from.is_some_and(|from| from.origin() == attempt.url().origin());
    if same && attempt.previous().len() <= MOST_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

/// Says where a redirect would have led, and why it is not followed. Of another server only its name is shown: the rest
/// may be a secret.
fn not_followed(answer: &Response) -> String {
    let (status, url) = (answer.status(), answer.url());
    let location = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    match location.and_then(|location| url.join(location).ok()) {
        Some(target) if target.origin() != url.origin() => format!(
            "{status}: redirects to another server, {}, are not followed; give its URL instead",
            target.origin().ascii_serialization()
        ),
        Some(_) => format!("{status}: stopped after {MOST_REDIRECTS} redirects"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests;
